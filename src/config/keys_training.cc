#include "config/key_groups.h"

namespace maxtext {
namespace {

KeyGroup loop_keys() {
  return {"Training",
          {
              integer_key("steps", 150001, "Optimizer steps; -1 takes learning_rate_schedule_steps")
                  .at_least(1)
                  .or_minus_one(),
              boolean_key("abort_on_nan_loss", true, "Stop when the loss is not a number, naming the first bad tensor"),
              boolean_key("abort_on_inf_loss", true, "Stop when the loss is infinite"),
              real_key("z_loss_multiplier", 0, "Weight of the squared logsumexp of the logits in the loss").at_least(0),
              text_key("dtype", "float32",
                       "Type of activations, and of weights where they meet them. bfloat16 needs engine=xla; master "
                       "weights, moments, softmax, sums and the loss stay float32")
                  .one_of({"float32", "bfloat16"})
                  .not_yet({"float16"}),
              text_key("weight_dtype", "float32", "Type of weights and optimizer state; only float32 is there now")
                  .one_of({"float32"})
                  .not_yet({"bfloat16", "float16"}),
          }};
}

KeyGroup learning_rate_keys() {
  return {
      "Learning rate",
      {
          real_key("learning_rate", 3e-5, "Peak learning rate").at_least(0),
          text_key("lr_schedule_type", "cosine",
                   "cosine: warm up linearly, fall along a cosine; wsd: warm up, stay, decay")
              .one_of({"cosine", "wsd"}),
          integer_key("learning_rate_schedule_steps", -1,
                      "Length of the schedule, the rate is 0 after it; -1 takes steps")
              .at_least(1)
              .or_minus_one(),
          real_key("warmup_steps_fraction", 0.1, "Share of the schedule that warms up").at_least(0).at_most(1),
          real_key("learning_rate_final_fraction", 0.1, "Last rate as a share of the peak")
              .at_least(0)
              .at_most(1)
              .also_called("cosine_learning_rate_final_fraction"),
          real_key("wsd_decay_steps_fraction", 0.1, "wsd: share of the schedule that decays").at_least(0).at_most(1),
          text_key("wsd_decay_style", "linear", "wsd: shape of the decay").one_of({"linear", "cosine"}),
      }};
}

KeyGroup optimizer_keys() {
  return {"Optimizer",
          {
              text_key("opt_type", "adamw", "Optimizer").one_of({"adamw", "sgd"}).not_yet({"adam_pax", "muon"}),
              real_key("adam_b1", 0.9, "Decay of the first moment").at_least(0).at_most(1),
              real_key("adam_b2", 0.95, "Decay of the second moment").at_least(0).at_most(1),
              real_key("adam_eps", 1e-8, "Added to the root of the second moment").at_least(0),
              real_key("adam_eps_root", 0, "Added under the root").at_least(0),
              real_key("adam_weight_decay", 0.1, "Decoupled weight decay, on every parameter").at_least(0),
              real_key("gradient_clipping_threshold", 1, "Largest global norm of the gradient; 0 does not clip")
                  .at_least(0),
          }};
}

}  // namespace

std::vector<KeyGroup> training_keys() { return {loop_keys(), learning_rate_keys(), optimizer_keys()}; }

}  // namespace maxtext
