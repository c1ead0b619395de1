// Elementary functions of f32 as straight-line vector arithmetic.
//
// Kernels may not call libm (a module has no undefined symbols but the runtime's services), and a
// call would end vectorisation. MLIR's own expansions lose NaN, infinities, subnormals or several
// ulp. These have no branches, only selects; values and results are f32 or vectors of it.
//
// Largest errors, measured by test/ElementaryFunctionsTest.cpp over each function's whole range, in
// units in the last place (ulp) of the correctly rounded result: see the table there, which fails
// where one is exceeded. NaN gives NaN, and infinities and zeros give the limits of IEEE 754-2019,
// section 9.2.
//
// Argument reduction and several coefficients follow S. Moshier, Cephes Mathematical Library
// (single precision); Cody and Waite, Software Manual for the Elementary Functions, 1980.
#pragma once

#include "compiler/graph/ScalarCode.h"

namespace tensmith::graph {

/// e^x * 2^exponent, rounded once: `exponent` reaches results whose e^x alone would overflow.
mlir::Value emitExp(const ScalarCode &code, mlir::Value x, int64_t exponent = 0);
/// e^x in fewer instructions: 0 from below 2^-126 on, infinite from 2^127.5 on.
mlir::Value emitNormalExp(const ScalarCode &code, mlir::Value x);
mlir::Value emitLog(const ScalarCode &code, mlir::Value x);
mlir::Value emitLog1p(const ScalarCode &code, mlir::Value x);
mlir::Value emitSigmoid(const ScalarCode &code, mlir::Value x);
mlir::Value emitErf(const ScalarCode &code, mlir::Value x);

/// Arguments are reduced in f64: accurate up to about 2^28 in magnitude, in [-1, 1] always.
mlir::Value emitSin(const ScalarCode &code, mlir::Value x);
mlir::Value emitCos(const ScalarCode &code, mlir::Value x);
mlir::Value emitTan(const ScalarCode &code, mlir::Value x);
mlir::Value emitAsin(const ScalarCode &code, mlir::Value x);
mlir::Value emitAcos(const ScalarCode &code, mlir::Value x);
mlir::Value emitAtan(const ScalarCode &code, mlir::Value x);

mlir::Value emitSinh(const ScalarCode &code, mlir::Value x);
mlir::Value emitCosh(const ScalarCode &code, mlir::Value x);
mlir::Value emitTanh(const ScalarCode &code, mlir::Value x);
mlir::Value emitAsinh(const ScalarCode &code, mlir::Value x);
mlir::Value emitAcosh(const ScalarCode &code, mlir::Value x);
mlir::Value emitAtanh(const ScalarCode &code, mlir::Value x);

/// a^b by an f64 logarithm, so that large exponents lose nothing.
mlir::Value emitPow(const ScalarCode &code, mlir::Value a, mlir::Value b);

} // namespace tensmith::graph
