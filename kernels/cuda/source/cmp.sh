/usr/local/cuda/bin/nvcc -cubin -gencode arch=compute_90,code=sm_90 -O3 -fmad=false -std=c++20 -I. -Xptxas -v -o o.cubin o_0.cu 2>&1 | grep -E "error|Used|spill s|Compiling" | grep -v "0 bytes stack"; /tmp/rnnb/pip/nvidia/cu13/bin/nvdisasm -c o.cubin > o.sass; python3 - <<'P'
import re
cur=None; d={}
for l in open('o.sass'):
    m=re.match(r"\.text\.(k_v\d+):",l.strip())
    if m: cur=m.group(1); d[cur]=[]
    if re.match(r"\.L_x_\d+:",l.strip()) and cur: d[cur].append(l.strip())
    m=re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?);",l)
    if m and cur: d[cur].append(m.group(1))
for k,v in sorted(d.items()):
    ops={}
    for i in v:
        op=re.sub(r"^@!?U?P\d+ ","",i).split()[0]
        op=op if op.startswith(('LDS','STS','LDG','STG','LDL','STL','BAR')) else op.split('.')[0]
        ops[op]=ops.get(op,0)+1
    print(k,len(v),sorted(ops.items(),key=lambda x:-x[1])[:22])
    open(k+'.txt','w').write("\n".join(v))
P
