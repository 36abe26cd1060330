#include "config/key_groups.h"

namespace maxtext {

std::vector<KeyGroup> run_keys() {
  return {
      {"Run",
       {
           text_key("run_name", "",
                    "Name of the run. A run with complete checkpoints under this name is continued. Needed unless "
                    "enable_checkpointing is false"),
           text_key("base_output_directory", "runs",
                    "Where runs live: <base_output_directory>/<run_name>/checkpoints/<step>/items"),
           text_key("model_name", "default",
                    "Model whose file configs/models/<model_name>.yml is laid over base.yml; default takes the model "
                    "keys of base.yml"),
           boolean_key("override_model_config", false,
                       "Allow keys of the model's file to be overridden by run file, environment or command line"),
           integer_key("init_weights_seed", 0, "Seed of the initial weights").at_least(0),
       }},
      {"Checkpoints",
       {
           boolean_key("enable_checkpointing", true, "Save checkpoints, and continue from the newest complete one"),
           boolean_key("async_checkpointing", true, "Write checkpoints while training goes on"),
           integer_key("checkpoint_period", 10000, "Steps between checkpoints").at_least(1),
           integer_key("max_num_checkpoints_to_keep", -1, "Newest checkpoints kept; -1 (or None) keeps all")
               .at_least(1)
               .or_minus_one()
               .at_most(1e9)
               .none_is(std::int64_t{-1}),
           boolean_key("save_checkpoint_on_completion", true, "Save after the last step"),
           text_key("load_parameters_path", "",
                    "Hugging Face directory or checkpoint whose weights a new run starts from; the run's own "
                    "checkpoints go first"),
           text_key("load_full_state_path", "",
                    "Checkpoint whose weights, optimizer state, step and data cursor a new run starts from"),
       }},
      {"Metrics",
       {
           text_key("metrics_file", "", "JSON lines, one per step, continued after a resume; empty writes none"),
       }},
      {"Evaluation",
       {
           integer_key("eval_interval", -1, "Training steps between evaluations; -1 never evaluates")
               .at_least(1)
               .or_minus_one(),
           integer_key("eval_steps", -1, "Batches per evaluation; -1 takes the whole held-out data")
               .at_least(1)
               .or_minus_one(),
       }},
  };
}

}  // namespace maxtext
