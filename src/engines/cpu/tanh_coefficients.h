// tanh x = x · P(x²) / Q(x²) on [−9, 9]: coefficients for the two vectorised forms (vector_loops_body.inc,
// kernels/vec.h). Data only: those files may not call functions of other headers.
//
// A minimax fit of the relative error (2.1e-8 in exact arithmetic; Lawson's reweighting of a linearised least-squares
// fit). All coefficients are positive, so neither sum cancels and float32 evaluation stays within 3 units of the last
// place, near 0 as well, where 1 − 2/(exp(2x) + 1) would lose everything. 8 multiply-adds and a division.
#pragma once

namespace maxtext {

inline constexpr double kTanhLimit = 9;  // tanh is 1 in float32 from there on
inline constexpr double kTanhNumerator[4] = {0.13381020126011592, 3.495581740547758e-3, 2.0608983474667928e-5,
                                             1.3354536125195757e-8};  // of z … z⁴; the constant term is 1
inline constexpr double kTanhDenominator[4] = {0.4671433571078296, 2.5876957487143727e-2, 3.285624645299178e-4,
                                               7.77650454411028e-7};

}  // namespace maxtext
