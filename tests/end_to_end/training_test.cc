// What a training run prints and writes, with each model, optimizer and way to divide a batch.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <regex>

#include "end_to_end/training_runs.h"

namespace maxtext::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Training : public TrainingRuns {
 protected:
  void expect_near(const std::string& run, const std::string& reference, double tolerance) const {
    const std::vector<double> found = losses(run);
    const std::vector<double> expected = losses(reference);
    ASSERT_EQ(found.size(), expected.size()) << run;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_NEAR(found[i], expected[i], tolerance * expected[i]) << run << ", step " << i;
    }
  }
};

double number_after(const std::string& line, const std::string& label) {
  return std::stod(line.substr(line.find(label) + label.size()));
}

TEST_F(Training, PackedTextOverTwoDevicesIsLearnt) {
  const ProgramResult result = train("run",
                                     "steps=20 learning_rate_schedule_steps=20 ici_context_parallelism=2 "
                                     "eval_interval=20");
  const auto evaluations = lines_with(result.output, "Completed eval");
  ASSERT_THAT(evaluations, SizeIs(2));
  const std::regex eval_line(
      R"(Completed eval (before|after) train step \d+, loss=\d+\.\d{3}, perplexity=\d+\.\d{3}, total_weights=\d+)");
  for (const std::string& line : evaluations) EXPECT_TRUE(std::regex_match(line, eval_line)) << line;
  const double before = number_after(evaluations[0], "loss=");
  EXPECT_NEAR(before, std::log(512.0), 0.5);  // a model that knows nothing
  EXPECT_LT(number_after(evaluations[1], "loss="), 0.6 * before);
}

TEST_F(Training, StepLinesAreMaxTexts) {
  const ProgramResult result = train("run", "steps=3 ici_context_parallelism=2");
  const auto lines = lines_with(result.output, "completed step");
  ASSERT_THAT(lines, SizeIs(3));
  const std::regex form(R"(completed step: \d+, seconds: \d+\.\d{3}, TFLOP/s/device: \d+\.\d{3}, )"
                        R"(Tokens/s/device: \d+\.\d{3}, total_weights: \d+, loss: \d+\.\d{3}, )"
                        R"(grad_norm: \d+\.\d{3}, learning_rate: \d\.\d{3}e[+-]\d\d)");
  const auto numbers_of_step = metrics("run");
  ASSERT_THAT(numbers_of_step, SizeIs(3));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_TRUE(std::regex_match(lines[i], form)) << lines[i];
    const nlohmann::json& numbers_of = numbers_of_step[i];
    EXPECT_EQ(numbers_of.at("step"), i);
    EXPECT_NEAR(number_after(lines[i], " loss: "), numbers_of.at("loss").get<double>(), 0.0006);
    // Two rows of 64 over two devices.
    EXPECT_NEAR(numbers_of.at("tokens_per_second_per_device").get<double>(),
                64 / numbers_of.at("step_time_seconds").get<double>(), 1e-6 * 64 / 1e-3);
    EXPECT_GT(numbers_of.at("tflops_per_second_per_device").get<double>(), 0);
    EXPECT_LT(numbers_of.at("tflops_per_second_per_device").get<double>(), 10);
    EXPECT_GT(numbers_of.at("peak_memory_bytes").get<std::int64_t>(), 1 << 20);
    std::vector<std::string> fields;
    for (const auto& [name, value] : numbers_of.items()) fields.push_back(name);
    EXPECT_THAT(fields, ::testing::UnorderedElementsAre("step", "loss", "total_weights", "grad_norm", "learning_rate",
                                                        "step_time_seconds", "tokens_per_second_per_device",
                                                        "tflops_per_second_per_device", "peak_memory_bytes"));
  }
  EXPECT_THAT(result.output, Not(HasSubstr("\r")));
  EXPECT_THAT(result.output, Not(HasSubstr("\x1b")));
}

TEST_F(Training, EverySmallModelGivesTheSameOnAnyMesh) {
  for (const std::string model : {"llama-tiny", "mistral-tiny", "qwen3-tiny"}) {
    const std::string common = "enable_checkpointing=false steps=4 max_target_length=100 model_name=" + model + " ";
    train(model, common);
    for (const std::string mesh :
         {"ici_context_parallelism=2", "ici_context_parallelism=3", "ici_fsdp_parallelism=2"}) {
      train(model + mesh, common + mesh);
      expect_near(model + mesh, model, 1e-5);
    }
    EXPECT_LT(losses(model).back(), losses(model).front());
  }
}

TEST_F(Training, RematerialisationChangesNothing) {
  const std::string common = "enable_checkpointing=false steps=4 ici_context_parallelism=2 ";
  train("full", common + "remat_policy=full");
  ASSERT_THAT(metrics("full"), SizeIs(4));
  for (const std::string policy : {"minimal", "none"}) {
    train(policy, common + "remat_policy=" + policy);
    EXPECT_EQ(numbers(metrics(policy)), numbers(metrics("full"))) << policy;
  }
}

TEST_F(Training, MicroBatchesAreTheBatch) {
  const std::string common = "enable_checkpointing=false steps=4 global_batch_size=4 ";
  train("whole", common);
  train("halves", common + "gradient_accumulation_steps=2");
  train("quarters", common + "gradient_accumulation_steps=4 ici_context_parallelism=2");
  expect_near("halves", "whole", 1e-5);
  expect_near("quarters", "whole", 1e-5);
}

TEST_F(Training, HalfARowPerDevice) {
  train("half",
        "enable_checkpointing=false steps=4 global_batch_size=0 per_device_batch_size=0.5 "
        "ici_context_parallelism=2");
  train("one", "enable_checkpointing=false steps=4 global_batch_size=1");
  expect_near("half", "one", 1e-5);
}

TEST_F(Training, OptimizersSchedulesAndZLoss) {
  const std::string common = "enable_checkpointing=false steps=6 ici_context_parallelism=2 ";
  train("adamw", common);
  train("sgd", common + "opt_type=sgd");
  EXPECT_EQ(losses("sgd").front(), losses("adamw").front());
  EXPECT_NE(losses("sgd").back(), losses("adamw").back());
  EXPECT_LT(losses("sgd").back(), losses("sgd").front());

  train("z", common + "z_loss_multiplier=0.001");
  // Initial logits are about standard normal, so their logsumexp is about log(512) + 1/2.
  EXPECT_NEAR(losses("z").front() - losses("adamw").front(), 0.001 * std::pow(std::log(512.0) + 0.5, 2), 0.002);

  train("wsd", common +
                   "lr_schedule_type=wsd learning_rate_schedule_steps=6 warmup_steps_fraction=0.34 "
                   "wsd_decay_steps_fraction=0.34 learning_rate_final_fraction=0.1");
  std::vector<double> rates;
  for (const auto& line : metrics("wsd")) rates.push_back(line.at("learning_rate"));
  ASSERT_THAT(rates, SizeIs(6));
  EXPECT_EQ(rates[0], 0);
  EXPECT_NEAR(rates[2], 0.01, 1e-9);
  EXPECT_NEAR(rates[3], 0.01, 1e-9);
  EXPECT_LT(rates[5], 0.01);
}

TEST_F(Training, EvaluationDoesNotDependOnTheMesh) {
  // Three evaluation rows at most, in batches of two: the last batch has a row of padding.
  const std::string common = "enable_checkpointing=false steps=1 eval_interval=1 global_batch_size=2 ";
  const auto loss = [&](const std::string& run, const std::string& mesh) {
    return lines_with(train(run, common + mesh).output, "Completed eval before").at(0);
  };
  const std::string expected = loss("one", "");
  int number = 0;
  for (const std::string mesh : {"ici_context_parallelism=2", "ici_context_parallelism=3", "ici_fsdp_parallelism=2"}) {
    EXPECT_EQ(loss("mesh" + std::to_string(number++), mesh), expected) << mesh;
  }
}

TEST_F(Training, EndOfDataIsAClearStop) {
  const ProgramResult result = train("run", "steps=1000 num_epoch=1");
  const auto end = lines_with(result.output, "end of data after");
  ASSERT_THAT(end, SizeIs(1));
  const auto completed = static_cast<int>(number_after(end[0], "after "));
  EXPECT_THAT(steps("run"), SizeIs(completed));
  EXPECT_THAT(lines_with(result.output, "saved checkpoint of step " + std::to_string(completed)), SizeIs(1));

  // The same command again has nothing to do, and says so.
  const ProgramResult again = train("run", "steps=1000 num_epoch=1");
  EXPECT_THAT(again.output, HasSubstr(end[0]));
  EXPECT_THAT(lines_with(again.output, "completed step"), IsEmpty());
  EXPECT_THAT(lines_with(again.output, "saved"), IsEmpty());

  // With another epoch it goes on.
  train("run", "steps=1000 num_epoch=2");
  EXPECT_GT(steps("run").size(), static_cast<std::size_t>(completed));
}

TEST_F(Training, LessDataThanOneStepIsAnError) {
  std::ofstream(path("small.txt")) << "short\n";
  const ProgramResult result = run("run", "steps=2 num_epoch=1 train_files=" + path("small.txt").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("fewer rows than the 2 of one step"));
}

TEST_F(Training, HeldOutDataWithoutRowsIsAnError) {
  std::ofstream(path("empty.txt")) << "";
  const ProgramResult result = run("run", "steps=2 eval_interval=1 eval_files=" + path("empty.txt").string());
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.error, HasSubstr("eval"));
  EXPECT_THAT(lines_with(result.output, "loss=0.000"), IsEmpty());
}

}  // namespace
}  // namespace maxtext::testing
