// Recurrent layers by the reference evaluator, against values of ONNX Runtime, the onnx package's
// own reference or NumPy. A case breaks where a size, an order or a default of the operator is read
// differently than they do.
#include "reference/test/Expectations.h"

namespace tensmith::reference {
namespace {

TEST(RecurrentReference, RnnReverseWithLengths) {
  auto results =
      evaluated("rnn",
                {ramp({3, 2, 2}, 1), ramp({1, 3, 2}, 2), ramp({1, 3, 3}, 3), ramp({1, 6}, 4),
                 integers(DataType::I32, {2}, {3, 2}), ramp({1, 2, 3}, 5)},
                {{"hidden_size", int64_t(3)}, {"direction", std::string("reverse")}});
  expectNear(results, 0, {3, 1, 2, 3},
             {0.9855549, -0.9944327, 0.4886092, 0.9599377, 0.1236528, 0.9147828, 0.9971366,
              -0.9626797, -0.6716204, -0.3852839, 0.9936546, 0.809301, 0.9989284, -0.1089409,
              -0.9751367, 0, 0, 0});
  expectNear(results, 1, {1, 2, 3},
             {0.9855549, -0.9944327, 0.4886092, 0.9599377, 0.1236528, 0.9147828});
}

TEST(RecurrentReference, RnnActivationsClip) {
  auto results = evaluated("rnn", {ramp({2, 1, 2}, 1), ramp({2, 2, 2}, 2), ramp({2, 2, 2}, 3)},
                           {{"hidden_size", int64_t(2)},
                            {"direction", std::string("bidirectional")},
                            {"activations", Names{"HardSigmoid", "LeakyRelu"}},
                            {"activation_alpha", Reals{0.3, 0.2}},
                            {"activation_beta", Reals{0.4}},
                            {"clip", 0.75}});
  expectNear(results, 0, {2, 2, 1, 2},
             {0.315625, 0.175, 0.75, 0.6269531, 0.5428516, 0.175, 0.53125, 0.609375});
  expectNear(results, 1, {2, 1, 2}, {0.5428516, 0.175, 0.75, 0.6269531});
}

TEST(RecurrentReference, GruBidirectional) {
  auto results =
      evaluated("gru",
                {ramp({3, 2, 2}, 1), ramp({2, 6, 2}, 2), ramp({2, 6, 2}, 3), ramp({2, 12}, 4),
                 integers(DataType::I32, {2}, {3, 2}), ramp({2, 2, 2}, 5)},
                {{"hidden_size", int64_t(2)}, {"direction", std::string("bidirectional")}});
  expectNear(results, 0, {3, 2, 2, 2},
             {-0.2861932, 0.3397629, 0.3197813,  0.4239607,   -0.3938464, 0.1875254,
              -0.7986448, 0.4598132, -0.2779073, 0.007901421, -0.4195706, 0.6171063,
              0.2636146,  0.2468849, -0.552495,  0.8425573,   -0.4219542, 0.3489234,
              0,          0,         0.9947959,  0.2217445,   0,          0});
  expectNear(
      results, 1, {2, 2, 2},
      {-0.4219542, 0.3489234, -0.4195706, 0.6171063, -0.3938464, 0.1875254, -0.7986448, 0.4598132});
}

TEST(RecurrentReference, GruLinearBeforeReset) {
  auto results =
      evaluated("gru",
                {ramp({3, 2, 2}, 1), ramp({2, 6, 2}, 2), ramp({2, 6, 2}, 3), ramp({2, 12}, 4),
                 integers(DataType::I32, {2}, {3, 2}), ramp({2, 2, 2}, 5)},
                {{"hidden_size", int64_t(2)},
                 {"direction", std::string("bidirectional")},
                 {"linear_before_reset", int64_t(1)}});
  expectNear(results, 0, {3, 2, 2, 2},
             {-0.2859683, 0.3342159, 0.3217114,  0.3758188,   -0.2015073, 0.162942,
              -0.7657912, 0.2142652, -0.2406244, -0.07016297, -0.3782089, 0.5803448,
              0.3504535,  0.2300847, -0.5373404, 0.6209613,   -0.3442835, 0.2807809,
              0,          0,         0.9978509,  0.2136915,   0,          0});
  expectNear(
      results, 1, {2, 2, 2},
      {-0.3442835, 0.2807809, -0.3782089, 0.5803448, -0.2015073, 0.162942, -0.7657912, 0.2142652});
}

TEST(RecurrentReference, LstmBidirectionalPeepholes) {
  auto results =
      evaluated("lstm",
                {ramp({3, 2, 2}, 1), ramp({2, 8, 2}, 2), ramp({2, 8, 2}, 3), ramp({2, 16}, 4),
                 integers(DataType::I32, {2}, {3, 2}), ramp({2, 2, 2}, 5), ramp({2, 2, 2}, 6),
                 ramp({2, 6}, 7)},
                {{"hidden_size", int64_t(2)}, {"direction", std::string("bidirectional")}});
  expectNear(results, 0, {3, 2, 2, 2},
             {-0.09670019, -0.3015391,  -0.05900361, 0.02970791, -0.8287211, 0.05764415,
              -0.5752423,  -0.06548225, -0.02265931, -0.3794387, 0.02544947, -0.460167,
              -0.5615396,  0.2447974,   -0.0976568,  -0.1683459, 0.01278633, -0.5703481,
              0,           0,           -0.1139937,  0.2869319,  0,          0});
  expectNear(results, 1, {2, 2, 2},
             {0.01278633, -0.5703481, 0.02544947, -0.460167, -0.8287211, 0.05764415, -0.5752423,
              -0.06548225});
  expectNear(
      results, 2, {2, 2, 2},
      {0.8635551, -1.190949, 0.6458365, -0.759068, -1.776695, 0.5227968, -0.8501053, -0.5984491});
}

TEST(RecurrentReference, LstmCoupledClipped) {
  auto results = evaluated("lstm",
                           {ramp({3, 2, 2}, 1), ramp({2, 8, 2}, 2), ramp({2, 8, 2}, 3),
                            ramp({2, 16}, 4), integers(DataType::I32, {2}, {3, 2}),
                            ramp({2, 2, 2}, 5), ramp({2, 2, 2}, 6), ramp({2, 6}, 7)},
                           {{"hidden_size", int64_t(2)},
                            {"direction", std::string("bidirectional")},
                            {"input_forget", int64_t(1)},
                            {"clip", 1.5}});
  expectNear(results, 0, {3, 2, 2, 2},
             {-0.0767737, -0.2884824,  -0.07201481, -0.1868827, -0.5532496, 0.1299039,
              -0.5273706, -0.04047845, -0.07204106, -0.3573503, 0.1017991,  -0.4378823,
              -0.4486812, 0.3611702,   -0.1340922,  -0.1617757, 0.105974,   -0.4068965,
              0,          0,           -0.3060091,  0.6783205,  0,          0});
  expectNear(results, 1, {2, 2, 2},
             {0.105974, -0.4068965, 0.1017991, -0.4378823, -0.5532496, 0.1299039, -0.5273706,
              -0.04047845});
  expectNear(
      results, 2, {2, 2, 2},
      {0.6638451, -0.7833391, 0.6299689, -0.747301, -0.8881178, 0.8914163, -0.7667624, -0.2256434});
}

TEST(RecurrentReference, LstmBatchFirst) {
  auto results = evaluated("lstm", {ramp({2, 3, 2}, 1), ramp({1, 4, 2}, 2), ramp({1, 4, 1}, 3)},
                           {{"hidden_size", int64_t(1)}, {"batch_first", int64_t(1)}});
  expectNear(results, 0, {2, 3, 1, 1},
             {0.07821012, 0.1231278, 0.1036524, -0.1396848, -0.3141317, 0.04100095});
  expectNear(results, 1, {2, 1, 1}, {0.1036524, 0.04100095});
  expectNear(results, 2, {2, 1, 1}, {0.4564592, 0.1156051});
}

} // namespace
} // namespace tensmith::reference
