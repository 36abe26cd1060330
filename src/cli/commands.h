// The subcommands of `maxtext`. Each has a file <name>_command.cc and a line in the table of main.cc.
#pragma once

#include <string>
#include <vector>

namespace maxtext {

/// What stands behind the subcommand's name on the command line.
using Arguments = std::vector<std::string>;

/// `maxtext config`: explains keys, prints the resolved configuration, base.yml or the documentation. Returns the exit
/// code; wrong usage is a ConfigError.
int config_command(const Arguments& arguments);

/// `maxtext train`: runs or resumes a training run.
int train_command(const Arguments& arguments);

/// `maxtext plan`: a training step on the dry engine.
int plan_command(const Arguments& arguments);

/// `maxtext decode`: text from prompts.
int decode_command(const Arguments& arguments);

/// `maxtext eval`: perplexity of a text under a model.
int eval_command(const Arguments& arguments);

/// `maxtext check-logits`: a model's logits against golden ones.
int check_logits_command(const Arguments& arguments);

/// `maxtext generate-param-only-checkpoint`: a checkpoint without moments.
int generate_param_only_checkpoint_command(const Arguments& arguments);

/// `maxtext convert`: a checkpoint into a Hugging Face directory, or the other way.
int convert_command(const Arguments& arguments);

/// `maxtext train-tokenizer`: a sentencepiece model from text.
int train_tokenizer_command(const Arguments& arguments);

/// `maxtext bench`: speed and memory, measured against the machine's own peaks.
int bench_command(const Arguments& arguments);

}  // namespace maxtext
