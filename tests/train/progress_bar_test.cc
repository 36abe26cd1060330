#include "train/progress_bar.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <stdexcept>

namespace maxtext {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

/// A pseudo terminal: what is written to `terminal` can be read from `screen`.
class PseudoTerminal {
 public:
  PseudoTerminal() : screen_(posix_openpt(O_RDWR | O_NOCTTY)) {
    if (screen_ < 0 || grantpt(screen_) != 0 || unlockpt(screen_) != 0) throw std::runtime_error("no pseudo terminal");
    terminal_ = open(ptsname(screen_), O_RDWR | O_NOCTTY);
    fcntl(screen_, F_SETFL, O_NONBLOCK);
  }
  ~PseudoTerminal() {
    close(terminal_);
    close(screen_);
  }
  int terminal() const { return terminal_; }
  std::string shown() const {
    std::string text;
    std::array<char, 256> part{};
    for (ssize_t size = 0; (size = read(screen_, part.data(), part.size())) > 0;) text.append(part.data(), size);
    return text;
  }

 private:
  int screen_ = -1;
  int terminal_ = -1;
};

TEST(ProgressText, ShowsShareStepsTimeLeftAndNote) {
  EXPECT_EQ(progress_text(90, 200, 1.5, "loss 3.142", 120),
            "[##########>             ] 45% 90/200, 0:02:45 left, loss 3.142");
  EXPECT_EQ(progress_text(0, 200, 0, "", 120), "[>                       ] 0% 0/200");
  EXPECT_EQ(progress_text(200, 200, 1, "", 120), "[########################] 100% 200/200");
}

TEST(ProgressText, NeverReachesTheLastColumn) {
  for (const int width : {0, 1, 10, 40}) {
    EXPECT_LE(progress_text(90, 200, 1.5, "loss 3.142", width).size(),
              static_cast<std::size_t>(std::max(0, width - 1)));
  }
}

TEST(ProgressText, OddTotalsAreDefined) {
  EXPECT_THAT(progress_text(0, 0, 1, "", 80), HasSubstr("100%"));
  EXPECT_THAT(progress_text(7, 5, 1, "", 80), HasSubstr("100% 7/5"));
}

TEST(ProgressBar, DrawsAndErasesOnATerminal) {
  const PseudoTerminal terminal;
  {
    ProgressBar bar(0, 10, terminal.terminal());
    EXPECT_TRUE(bar.visible());
    bar.update(10, "loss 1.0");
    EXPECT_THAT(terminal.shown(), HasSubstr("100% 10/10, loss 1.0"));
  }
  EXPECT_THAT(terminal.shown(), EndsWith("\r\x1b[K"));
}

TEST(ProgressBar, ClearMakesRoomAndUpdateDrawsAgain) {
  const PseudoTerminal terminal;
  ProgressBar bar(0, 10, terminal.terminal());
  bar.update(1, "");
  bar.clear();
  EXPECT_THAT(terminal.shown(), EndsWith("\r\x1b[K"));
  bar.update(2, "");
  EXPECT_THAT(terminal.shown(), HasSubstr("2/10"));
}

TEST(ProgressBar, IsSilentInAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  {
    ProgressBar bar(0, 10, ends[1]);
    EXPECT_FALSE(bar.visible());
    bar.update(5, "loss 1.0");
    bar.clear();
  }
  close(ends[1]);
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

}  // namespace
}  // namespace maxtext
