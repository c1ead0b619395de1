// Softmax and normalisation along the last dimension, with what surrounds them, a row at a time.
#pragma once
#include "compiler/kernel/Template.h"

namespace tensmith::kernel {

extern const Template kRows;

} // namespace tensmith::kernel
