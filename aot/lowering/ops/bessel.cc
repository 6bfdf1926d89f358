// SPDX-License-Identifier: Apache-2.0

// Rows of Bessel functions. For small x they are sums of Chebyshev polynomials in x, for large x
// such sums in 1/x times the function's asymptotic form.
#include <cmath>

#include "aot/lowering/ops/chebyshev.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// exp(-x) I0(x) and exp(-x) I1(x) / x on [0, 8], in x / 4 - 1; sqrt(x) exp(-x) I0(x)
// and I1(x) beyond, in 16 / x - 1.
constexpr double kI0eNear[] = {
    3.383976372047380425e-1,  -3.046826723431983987e-1,  1.716209015222087753e-1,  -9.490109704804764442e-2,
    4.930528423967070849e-2,  -2.373741480589946882e-2,  1.054646039459499832e-2,  -4.324309995050575944e-3,
    1.639475616941335798e-3,  -5.763755745385823659e-4,  1.885028850958416557e-4,  -5.754195010082103704e-5,
    1.644844807072889709e-5,  -4.416738358458750564e-6,  1.117387539120103718e-6,  -2.670793853940611734e-7,
    6.046995022541918949e-8,  -1.300025009986248042e-8,  2.65982372468238665e-9,   -5.189795601635262907e-10,
    9.675809035373236912e-11, -1.726826291441555707e-11, 2.955052663129639835e-12, -4.856446783111929461e-13,
    7.676185498604935617e-14, -1.168533287799345168e-14, 1.715391285555133031e-15, -2.431279846547954694e-16,
    3.330794518822238098e-17, -4.415341646479339379e-18};
constexpr double kI0eFar[] = {
    4.022452055070544158e-1,   3.36911647825569409e-3,    6.889758346916823984e-5,   2.891370520834756483e-6,
    2.048918589469063742e-7,   2.266668990498178065e-8,   3.396232025708386345e-9,   4.940602388224969589e-10,
    1.188914710784643834e-11,  -3.149916527963241365e-11, -1.321581184044771312e-11, -1.794178531506806118e-12,
    7.180124451383666234e-13,  3.852778382742142701e-13,  1.540086217521409827e-14,  -4.150569347287222087e-14,
    -9.554846698828307649e-15, 3.811680669352622421e-15,  1.772560133056526384e-15,  -3.425485619677219135e-16,
    -2.827623980516583485e-16, 3.461222867697461093e-17,  4.465621420296759999e-17,  -4.830504485944182071e-18,
    -7.233180487874753955e-18};
constexpr double kI1eNear[] = {
    1.262935932218168274e-1,  -1.764165183578340552e-1,  1.026436586898470954e-1,  -5.294598120809499143e-2,
    2.472644903062651683e-2,  -1.056408489462619816e-2,  4.156422944312888157e-3,  -1.513572450631253149e-3,
    5.122859561685757729e-4,  -1.617608158258967456e-4,  4.781565107550054226e-5,  -1.327316365603943583e-5,
    3.470251308137678477e-6,  -8.568720264695454741e-7,  2.003294753552135262e-7,  -4.445059128796328081e-8,
    9.381537386495771784e-9,  -1.887249751722829288e-9,  3.625590281552117037e-10, -6.663489723502027742e-11,
    1.173618629889090163e-11, -1.983974397764943715e-12, 3.22379336594557471e-13,  -5.042185504727911687e-14,
    7.600684294735406934e-15, -1.105596947735386308e-15, 1.553631957736200469e-16, -2.111421214358166078e-17,
    2.77791411276104637e-18};
constexpr double kI1eFar[] = {
    3.892881175091400602e-1,   -9.761097491361468408e-3,  -1.105889387626237163e-4,  -3.882564808877690393e-6,
    -2.512236237870208925e-7,  -2.631468846889519507e-8,  -3.835380385964237022e-9,  -5.589743462196583807e-10,
    -1.897495812350541234e-11, 3.252603583015488239e-11,  1.412580743661378133e-11,  2.035628544147089507e-12,
    -7.198551776245908512e-13, -4.083551111092197318e-13, -2.101541842772664313e-14, 4.272440016711951354e-14,
    1.042027698412880276e-14,  -3.814403072437007805e-15, -1.880354775510782449e-15, 3.308202310920928283e-16,
    2.962628997645950139e-16,  -3.209525921993423959e-17, -4.650305368489358326e-17, 4.41434832307170795e-18,
    7.517296310842104805e-18};

// On [0, 8], in x^2 / 32 - 1: J0(x), J1(x) / x, Y0(x) - 2/pi J0(x) log x and
// (Y1(x) - 2/pi (J1(x) log x - 1/x)) / x.
constexpr double kJ0Near[] = {1.577279714748901196e-1,   -8.723442352852221291e-3,  2.651786132033368099e-1,
                              -3.70094993872649779e-1,   1.580671023320972613e-1,   -3.489376941140888516e-2,
                              4.819180069467604497e-3,   -4.606261662062750475e-4,  3.246032882100508081e-5,
                              -1.761946907762150749e-6,  7.608163592418781867e-8,   -2.679253530557672898e-9,
                              7.848696314479464417e-11,  -1.943834686737016571e-12, 4.125320595634373933e-14,
                              -7.588508125447546338e-16, 1.221851587396141103e-17};
constexpr double kJ1Near[] = {
    8.10448463256581151e-2,   -1.489751450676521091e-1,  1.609992623572097025e-1,  -8.26804917668179066e-2,
    2.221363965496603541e-2,  -3.646940600769275958e-3,  4.050337728354821833e-4,  -3.255554866857258517e-5,
    1.985877404991516741e-6,  -9.521984756750436182e-8,  3.687133759097148239e-9,  -1.17802662269588484e-10,
    3.160154580348003321e-12, -7.221755239651773428e-14, 1.423214400351394232e-15, -2.444197291619046389e-17};
constexpr double kY0Near[] = {-3.314611320328494166e-2,  -2.744743055297452653e-1, 1.79034314077182663e-1,
                              2.615673462550466368e-1,   -1.773020127811435821e-1, 4.719668959576338687e-2,
                              -7.287962479552079179e-3,  7.531135932577742281e-4,  -5.632079141056986975e-5,
                              3.206532537654800979e-6,   -1.440723327401869948e-7, 5.248794787330516123e-9,
                              -1.583755254181201512e-10, 4.026330818306120753e-12, -8.747341203310769554e-14,
                              1.643489871491946904e-15,  -2.697788115256683563e-17};
constexpr double kY1Near[] = {2.53801323574178173e-3,    -1.608717304766875017e-2, -9.591204536083074247e-2,
                              8.445197259652345837e-2,   -2.832812394459436555e-2, 5.289897544167113014e-3,
                              -6.414551451326355987e-4,  5.505982873338743838e-5,  -3.538080018689349902e-6,
                              1.770780455615440341e-7,   -7.110550049899279782e-9, 2.344337905911516395e-10,
                              -6.465151841411594242e-12, 1.514291512050019955e-13, -3.051185969447325274e-15,
                              5.346680385728670123e-17,  -8.224911372021584629e-19};

// Beyond, J = sqrt(2 / (pi x)) (P cos(z) - 8/x Q sin(z)) and Y the same with P sin(z)
// + 8/x Q cos(z), z = x - pi/4 (- pi/2 for J1): P and Q in 2 (8 / x)^2 - 1.
constexpr double kJ0P[] = {9.994603493475186654e-1,   -5.365220468132117425e-4,  3.075184787519474622e-6,
                           -5.170594537606097701e-8,  1.630646463515138309e-9,   -7.864091377237069999e-11,
                           5.168262387349192462e-12,  -4.304578869925391222e-13, 4.326595743154940564e-14,
                           -5.069034095935236078e-15, 6.748072215733873704e-16,  -1.001151372346778583e-16,
                           1.630591923374418474e-17};
constexpr double kJ0Q[] = {
    -1.55558546053370091e-2,   6.838519942611649599e-5,  -7.414498411060647265e-7,  1.797245724796899178e-8,
    -7.271915936866319979e-10, 4.220121904668738444e-11, -3.206747420996634745e-12, 3.006145125351706311e-13,
    -3.336328185322426997e-14, 4.255225040245461123e-15, -6.09993013164005001e-16,  9.662128970303256738e-17,
    -1.66860652143781463e-17,  3.108244048673814434e-18, -6.191115787358144927e-19, 1.309144871722012155e-19};
constexpr double kJ1P[] = {1.0009030408600137,        8.989898330859408556e-4,   -3.987284300488908523e-6,
                           6.177633960644298535e-8,   -1.871890749106306609e-9,  8.816898659582338898e-11,
                           -5.704863640395644702e-12, 4.699195515230542375e-13,  -4.684223783990489222e-14,
                           5.452674896044717168e-15,  -7.221180842274017919e-16, 1.066768911433541246e-16,
                           -1.731231321611633497e-17};
constexpr double kJ1Q[] = {4.677778706953532524e-2,   -9.627723549157079324e-5,  9.138615257955454124e-7,
                           -2.095978138408342246e-8,  8.229193327650554129e-10,  -4.68636368817694523e-11,
                           3.515218794968608085e-12,  -3.264315674327899926e-13, 3.596776582916529193e-14,
                           -4.561252395077297194e-15, 6.508282957783383954e-16,  -1.026914753182324286e-16,
                           1.76763554877647916e-17,   -3.283451987298161461e-18, 6.524081149589260303e-19};

// On [0, 2], in x^2 / 2 - 1: I0(x), I1(x) / x, K0(x) + I0(x) log x and (K1(x) - I1(x)
// log x - 1/x) / x. Beyond, sqrt(x) exp(x) K(x) in 4 / x - 1.
constexpr double kI0Small[] = {1.602922806807963315,    6.388096256511770108e-1,  3.685485969436175799e-2,
                               9.828781272514798321e-4, 1.498365420892729275e-5,  1.473844900842384698e-7,
                               1.011479790067482549e-9, 5.114997902011279813e-12, 1.984280622680561873e-14,
                               6.090516506058954904e-17};
constexpr double kI1Small[] = {6.41758996991187405e-1,  1.475393201491934191e-1,  5.898742680020788305e-3,
                               1.198813717463870829e-4, 1.47391651190931269e-6,   1.213807496874092161e-8,
                               7.16110669279927947e-11, 3.174879311310119931e-13, 1.096299834877307528e-15};
constexpr double kK0Near[] = {8.433977275772222963e-1, 7.870789908592959491e-1, 6.15257786024407219e-2,
                              1.945894614185328317e-3, 3.324799870059762855e-5, 3.556382516627700574e-7,
                              2.605620741898849762e-9, 1.38951416319827786e-11, 5.635214661841846707e-14,
                              1.796627870313608262e-16};
constexpr double kK1Near[] = {-5.089237845320825086e-1,  -2.11435659776345595e-1,   -1.072557531032273891e-2,
                              -2.513233586483403347e-4,  -3.411200255414296857e-6,  -3.026704146655771052e-8,
                              -1.894597223991610189e-10, -8.819221396228751446e-13, -3.173348763892321741e-15,
                              -9.092150880033067147e-18};
constexpr double kK0Far[] = {
    1.220151541032977727,     -3.144810131196450054e-2,  1.569883885730053375e-3,  -1.284954958162780264e-4,
    1.394981371887649936e-5,  -1.831755522719119485e-6,  2.766813639445015076e-7,  -4.660489897687947666e-8,
    8.574034017414226086e-9,  -1.697534509389061516e-9,  3.577397281400328447e-10, -7.957489244477397038e-11,
    1.855949114954926555e-11, -4.514597883374519175e-12, 1.140340588207344235e-12, -2.980096923148178355e-13,
    8.032890775068374369e-14, -2.22751332674629636e-14,  6.340076476276645966e-15, -1.848593377920907169e-15,
    5.512055999404333365e-16, -1.678231125754900638e-16, 5.210391777643554113e-17, -1.647580593984263282e-17};
constexpr double kK1Far[] = {
    1.360313095242221335,      1.039237365768172384e-1,  -2.857816859622779387e-3,  1.952155184713516311e-4,
    -1.93619797416608296e-5,   2.406484947837217117e-6,  -3.501960603087812542e-7,  5.741084125450049292e-8,
    -1.034576246567809703e-8,  2.015049755197034616e-9,  -4.190354759341925584e-10, 9.218315187605314126e-11,
    -2.129967838427791022e-11, 5.13963967348234354e-12,  -1.289173960949822935e-12, 3.34841966605224312e-13,
    -8.976705182010146069e-14, 2.477154424219598681e-14, -7.019837089214768851e-15, 2.03870316623986088e-15,
    -6.057047270643017823e-16, 1.838093575243045426e-16, -5.689462849193648374e-17, 1.794051047886357291e-17};

using serialization::FN_COS;
using serialization::FN_SIN;

Tensor Number(Lowering& l, double value) { return l.b.Literal(value); }

// Returns argument 0, at least in f32.
Tensor Argument0(Lowering& l) {
  const DType dtype = l.result().dtype;
  return l.b.Cast(l.tensor(0), dtype == DType::kFloat64 ? dtype : DType::kFloat32);
}

Tensor AtLeast(Lowering& l, const Tensor& x, double least) { return l.b.Maximum(x, Number(l, least)); }

// exp(-|x|) I(x).
Tensor ScaledI(Lowering& l, const Tensor& x, int order) {
  constexpr double kBorder = 8;
  const Tensor size = l.b.Abs(x);
  const Tensor t = size * Number(l, 0.25) - Number(l, 1);
  const Tensor beyond = AtLeast(l, size, kBorder);
  const Tensor u = Number(l, 16) / beyond - Number(l, 1);
  const Tensor near = order == 0 ? ChebyshevSum(l.b, t, kI0eNear) : ChebyshevSum(l.b, t, kI1eNear) * x;
  Tensor far = ChebyshevSum(l.b, u, order == 0 ? absl::MakeConstSpan(kI0eFar) : absl::MakeConstSpan(kI1eFar)) *
               l.b.Rsqrt(beyond);
  if (order == 1) far = far * l.b.Sign(x);
  return l.b.Select(l.b.Le(size, Number(l, kBorder)), near, far);
}

absl::Status LowerScaledI(Lowering& l, int order) { return l.ReturnCast({ScaledI(l, Argument0(l), order)}); }

absl::Status LowerI(Lowering& l, int order) {
  const Tensor x = Argument0(l);
  return l.ReturnCast({ScaledI(l, x, order) * l.b.Exp(l.b.Abs(x))});
}

// Returns J, or Y if `second`, for x >= 8.
Tensor Oscillating(Lowering& l, const Tensor& x, int order, bool second) {
  const Tensor inverse = Number(l, 8) / x;
  const Tensor t = Number(l, 2) * inverse * inverse - Number(l, 1);
  const Tensor p = ChebyshevSum(l.b, t, order == 0 ? absl::MakeConstSpan(kJ0P) : absl::MakeConstSpan(kJ1P));
  const Tensor q = inverse * ChebyshevSum(l.b, t, order == 0 ? absl::MakeConstSpan(kJ0Q) : absl::MakeConstSpan(kJ1Q));
  const Tensor angle = x - Number(l, order == 0 ? M_PI_4 : 3 * M_PI_4);
  const Tensor sine = l.b.Unary(FN_SIN, angle), cosine = l.b.Unary(FN_COS, angle);
  const Tensor wave = second ? p * sine + q * cosine : p * cosine - q * sine;
  return wave * l.b.Sqrt(Number(l, M_2_PI) / x);
}

// Returns J for |x| <= 8.
Tensor NearJ(Lowering& l, const Tensor& x, int order) {
  const Tensor t = x * x * Number(l, 1.0 / 32) - Number(l, 1);
  return order == 0 ? ChebyshevSum(l.b, t, kJ0Near) : ChebyshevSum(l.b, t, kJ1Near) * x;
}

absl::Status LowerJ(Lowering& l, int order) {
  const Tensor x = Argument0(l);
  const Tensor size = l.b.Abs(x);
  Tensor far = Oscillating(l, AtLeast(l, size, 8), order, /*second=*/false);
  if (order == 1) far = far * l.b.Sign(x);
  return l.ReturnCast({l.b.Select(l.b.Le(size, Number(l, 8)), NearJ(l, x, order), far)});
}

// Y of x > 0; minus infinity at 0, NaN for x < 0.
absl::Status LowerY(Lowering& l, int order) {
  const Tensor x = Argument0(l);
  const Tensor t = x * x * Number(l, 1.0 / 32) - Number(l, 1);
  const Tensor logarithm = l.b.Log(x);
  Tensor near = NearJ(l, x, order) * logarithm;
  if (order == 1) near = near - Number(l, 1) / x;
  near = Number(l, M_2_PI) * near + (order == 0 ? ChebyshevSum(l.b, t, kY0Near) : ChebyshevSum(l.b, t, kY1Near) * x);
  near = l.b.Select(l.b.Eq(x, Number(l, 0)), Number(l, -HUGE_VAL), near);
  const Tensor far = Oscillating(l, AtLeast(l, x, 8), order, /*second=*/true);
  return l.ReturnCast({l.b.Select(l.b.Gt(x, Number(l, 8)), far, near)});
}

// exp(x) K(x) if `scaled`, else K(x), of x > 0; infinity at 0, NaN for x < 0.
absl::Status LowerK(Lowering& l, int order, bool scaled) {
  const Tensor x = Argument0(l);
  const Tensor t = x * x * Number(l, 0.5) - Number(l, 1);
  const Tensor logarithm = l.b.Log(x);
  Tensor near =
      order == 0 ? ChebyshevSum(l.b, t, kK0Near) - ChebyshevSum(l.b, t, kI0Small) * logarithm
                 : (ChebyshevSum(l.b, t, kK1Near) + ChebyshevSum(l.b, t, kI1Small) * logarithm) * x + Number(l, 1) / x;
  near = l.b.Select(l.b.Eq(x, Number(l, 0)), Number(l, HUGE_VAL), near);
  const Tensor beyond = AtLeast(l, x, 2);
  const Tensor u = Number(l, 4) / beyond - Number(l, 1);
  Tensor far =
      ChebyshevSum(l.b, u, order == 0 ? absl::MakeConstSpan(kK0Far) : absl::MakeConstSpan(kK1Far)) * l.b.Rsqrt(beyond);
  scaled ? near = near * l.b.Exp(x) : far = far * l.b.Exp(-beyond);
  return l.ReturnCast({l.b.Select(l.b.Gt(x, Number(l, 2)), far, near)});
}

// sin(x) / x
absl::Status LowerSphericalJ0(Lowering& l) {
  const Tensor x = Argument0(l);
  const Tensor quotient = l.b.Unary(FN_SIN, x) / x;
  const Tensor bounded = l.b.Select(l.b.Unary(serialization::FN_ISINF, x), Number(l, 0), quotient);
  return l.ReturnCast({l.b.Select(l.b.Eq(x, Number(l, 0)), Number(l, 1), bounded)});
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kPointwise, lower}; }

constexpr OpRow kRows[] = {
    Row("aten.i0.default", [](Lowering& l) { return LowerI(l, 0); }),
    Row("aten.special_bessel_j0.default", [](Lowering& l) { return LowerJ(l, 0); }),
    Row("aten.special_bessel_j1.default", [](Lowering& l) { return LowerJ(l, 1); }),
    Row("aten.special_bessel_y0.default", [](Lowering& l) { return LowerY(l, 0); }),
    Row("aten.special_bessel_y1.default", [](Lowering& l) { return LowerY(l, 1); }),
    Row("aten.special_i0e.default", [](Lowering& l) { return LowerScaledI(l, 0); }),
    Row("aten.special_i1.default", [](Lowering& l) { return LowerI(l, 1); }),
    Row("aten.special_i1e.default", [](Lowering& l) { return LowerScaledI(l, 1); }),
    Row("aten.special_modified_bessel_i0.default", [](Lowering& l) { return LowerI(l, 0); }),
    Row("aten.special_modified_bessel_i1.default", [](Lowering& l) { return LowerI(l, 1); }),
    Row("aten.special_modified_bessel_k0.default", [](Lowering& l) { return LowerK(l, 0, false); }),
    Row("aten.special_modified_bessel_k1.default", [](Lowering& l) { return LowerK(l, 1, false); }),
    Row("aten.special_scaled_modified_bessel_k0.default", [](Lowering& l) { return LowerK(l, 0, true); }),
    Row("aten.special_scaled_modified_bessel_k1.default", [](Lowering& l) { return LowerK(l, 1, true); }),
    Row("aten.special_spherical_bessel_j0.default", LowerSphericalJ0),
};

}  // namespace

absl::Span<const OpRow> BesselRows() { return kRows; }

}  // namespace cotan::aot
