# SPDX-License-Identifier: Apache-2.0
"""Training steps of models of peer_models.py in JAX, with the same shapes, one jitted function each."""
import os


def configure(threads):
    flags = ["--xla_cpu_multi_thread_eigen=" + ("true" if threads > 1 else "false")]
    flags.append(f"intra_op_parallelism_threads={threads}")
    os.environ["XLA_FLAGS"] = " ".join(flags)
    os.environ["JAX_PLATFORMS"] = "cpu"


def jax_step(name, threads, learning_rate, momentum):
    """Returns a function that runs one step and waits for it. Refuses models that are not written for JAX."""
    configure(threads)
    import jax
    import jax.numpy as jnp
    from jax import lax

    keys = iter(jax.random.split(jax.random.PRNGKey(1), 500))

    def normal(*shape, scale=1.0):
        return scale * jax.random.normal(next(keys), shape)

    def linear(inputs, outputs, bias=True):
        layer = {"weight": normal(inputs, outputs, scale=inputs**-0.5)}
        return {**layer, "bias": jnp.zeros(outputs)} if bias else layer

    def apply_linear(p, x):
        return x @ p["weight"] + p.get("bias", 0)

    def convolution(inputs, outputs, size=3):
        return normal(size, size, inputs, outputs, scale=(inputs * size * size) ** -0.5)

    def convolve(weight, x, stride=1):
        pad = (weight.shape[0] - 1) // 2
        return lax.conv_general_dilated(x, weight, (stride, stride), [(pad, pad)] * 2,
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def norm(width):
        return {"scale": jnp.ones(width), "shift": jnp.zeros(width)}

    def normalize(p, x, axes):
        centered = x - x.mean(axes, keepdims=True)
        variance = (centered * centered).mean(axes, keepdims=True)
        return centered * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def batch_norm(p, x):
        return normalize(p, x, (0, 1, 2))

    def max_pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def make_mlp():
        parameters = [linear(784, 256), linear(256, 128), linear(128, 10)]

        def forward(p, x):
            for layer in p[:-1]:
                x = jax.nn.relu(apply_linear(layer, x))
            return apply_linear(p[-1], x)

        return parameters, forward, normal(32, 784), 10, 32

    def make_cnn():
        parameters = {"layers": [{"weight": convolution(1, 16), "bias": jnp.zeros(16), "norm": norm(16)},
                                 {"weight": convolution(16, 32), "bias": jnp.zeros(32), "norm": norm(32)}],
                      "output": linear(32 * 49, 10)}

        def forward(p, x):
            for layer in p["layers"]:
                x = convolve(layer["weight"], x) + layer["bias"]
                x = max_pool(jax.nn.relu(batch_norm(layer["norm"], x)))
            return apply_linear(p["output"], x.reshape(x.shape[0], -1))

        return parameters, forward, normal(32, 28, 28, 1), 10, 32

    def make_resnet():
        shapes, strides = [(32, 32), (32, 64), (64, 128)], [1, 2, 2]
        blocks = []
        for (inputs, outputs), stride in zip(shapes, strides):
            block = {"conv1": convolution(inputs, outputs), "norm1": norm(outputs),
                     "conv2": convolution(outputs, outputs), "norm2": norm(outputs)}
            if stride != 1 or inputs != outputs:
                block.update({"shortcut": convolution(inputs, outputs, 1), "norm3": norm(outputs)})
            blocks.append(block)
        parameters = {"stem": convolution(3, 32), "norm": norm(32), "blocks": blocks, "output": linear(128, 10)}

        def residual(p, x, stride):
            y = jax.nn.relu(batch_norm(p["norm1"], convolve(p["conv1"], x, stride)))
            y = batch_norm(p["norm2"], convolve(p["conv2"], y))
            shortcut = batch_norm(p["norm3"], convolve(p["shortcut"], x, stride)) if "shortcut" in p else x
            return jax.nn.relu(y + shortcut)

        def forward(p, x):
            x = jax.nn.relu(batch_norm(p["norm"], convolve(p["stem"], x)))
            for block, stride in zip(p["blocks"], strides):
                x = residual(block, x, stride)
            return apply_linear(p["output"], x.mean((1, 2)))

        return parameters, forward, normal(16, 32, 32, 3), 10, 16

    def make_gpt(width=128, heads=4, layers=4, length=64, vocabulary=512, batch=8):
        def block():
            return {"norm1": norm(width), "norm2": norm(width), "qkv": linear(width, 3 * width),
                    "projection": linear(width, width), "expand": linear(width, 4 * width),
                    "contract": linear(4 * width, width)}

        parameters = {"tokens": normal(vocabulary, width), "positions": normal(length, width), "norm": norm(width),
                      "blocks": [block() for _ in range(layers)], "output": linear(width, vocabulary, bias=False)}
        causal = jnp.tril(jnp.ones((length, length), bool))

        def attend(p, x):
            qkv = apply_linear(p["qkv"], x).reshape(batch, length, 3, heads, width // heads)
            q, k, v = jnp.moveaxis(qkv, 2, 0).swapaxes(2, 3)
            scores = jnp.where(causal, q @ k.swapaxes(2, 3) * (width // heads) ** -0.5, -jnp.inf)
            return apply_linear(p["projection"], (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(x.shape))

        def forward(p, tokens):
            x = p["tokens"][tokens] + p["positions"]
            for layer in p["blocks"]:
                x = x + attend(layer, normalize(layer["norm1"], x, -1))
                hidden = jax.nn.gelu(apply_linear(layer["expand"], normalize(layer["norm2"], x, -1)), approximate=False)
                x = x + apply_linear(layer["contract"], hidden)
            return apply_linear(p["output"], normalize(p["norm"], x, -1)).reshape(-1, vocabulary)

        tokens = jax.random.randint(next(keys), (batch, length), 0, vocabulary)
        return parameters, forward, tokens, vocabulary, batch * length

    makers = {"mlp": make_mlp, "cnn": make_cnn, "resnet": make_resnet, "gpt": make_gpt}
    if name not in makers:
        raise SystemExit(f"{name} is not written for JAX")
    parameters, forward, x, classes, labels = makers[name]()
    y = jax.random.randint(next(keys), (labels,), 0, classes)

    def loss_of(p, x, y):
        log_probabilities = jax.nn.log_softmax(forward(p, x))
        return -jnp.take_along_axis(log_probabilities, y[:, None], 1).mean()

    def update(p, velocity, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(p, x, y)
        velocity = jax.tree.map(lambda v, g: momentum * v + g, velocity, gradients)
        return jax.tree.map(lambda w, v: w - learning_rate * v, p, velocity), velocity, loss

    jitted = jax.jit(update, donate_argnums=(0, 1))
    state = [parameters, jax.tree.map(jnp.zeros_like, parameters)]

    def step():
        *state[:], loss = jitted(*state, x, y)
        loss.block_until_ready()

    return step
