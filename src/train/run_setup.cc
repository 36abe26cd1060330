#include "train/run_setup.h"

#include <algorithm>

#include "base/error.h"
#include "config/keys.h"
#include "config/value.h"
#include "config/xla_options.h"
#include "model/tensor_parallel.h"

namespace maxtext {
namespace {

ScheduleOptions schedule_options(const Config& config) {
  return {.lr_schedule_type = config.text("lr_schedule_type") == "wsd" ? ScheduleType::wsd : ScheduleType::cosine,
          .learning_rate = config.real("learning_rate"),
          .learning_rate_schedule_steps = resolve_schedule_steps(config),
          .warmup_steps_fraction = config.real("warmup_steps_fraction"),
          .learning_rate_final_fraction = config.real("learning_rate_final_fraction"),
          .wsd_decay_steps_fraction = config.real("wsd_decay_steps_fraction"),
          .wsd_decay_style = config.text("wsd_decay_style") == "cosine" ? DecayStyle::cosine : DecayStyle::linear};
}

OptimizerOptions optimizer_options(const Config& config) {
  return {.type = config.text("opt_type") == "sgd" ? OptimizerType::sgd : OptimizerType::adamw,
          .adamw = {.b1 = config.real("adam_b1"),
                    .b2 = config.real("adam_b2"),
                    .epsilon = config.real("adam_eps"),
                    .epsilon_root = config.real("adam_eps_root"),
                    .weight_decay = config.real("adam_weight_decay")},
          .gradient_clipping_threshold = config.real("gradient_clipping_threshold")};
}

}  // namespace

RunSetup run_setup(const Config& config, std::optional<int> launched_devices) {
  const MeshSizes sizes = resolve_mesh(config, launched_devices);
  const ModelShape shape = model_shape(config);
  RunSetup setup{.mesh = model_mesh(shape, sizes),
                 .shape = shape,
                 .attention = {},
                 .batch = resolve_batch(config, sizes),
                 .micro_batches = static_cast<int>(config.integer("gradient_accumulation_steps")),
                 .sequence_length = config.integer("max_target_length"),
                 .steps = resolve_steps(config),
                 .schedule = schedule_options(config),
                 .optimizer = optimizer_options(config),
                 .decoder = {},
                 .plan = {},
                 .run_directory = resolve_run_directory(config)};
  schedule_phases(setup.schedule);
  setup.attention = layer_attention_types(setup.shape.layer_windows);
  setup.decoder.remat = remat_policy(config.text("remat_policy"));
  if (engine_choice(config).bfloat16) setup.decoder.dtype = DType::bfloat16;
  setup.decoder.z_loss_multiplier = config.real("z_loss_multiplier");
  setup.plan.attention_types = setup.attention.types;
  setup.plan.context_parallelism = setup.mesh.size(Axis::context);
  setup.plan.reorder = parse_reorder_strategy(resolve_reorder_strategy(config));
  return setup;
}

nlohmann::json config_snapshot(const Config& config) {
  nlohmann::json snapshot = nlohmann::json::object();
  for (const Key& key : all_keys()) snapshot[key.name] = format_value(config.value(key.name));
  return snapshot;
}

}  // namespace maxtext
