// Options in protobuf's wire format, against bytes written down by its rules.
#include "engines/xla/compile_options.h"

#include <gtest/gtest.h>

#include "xla/error_of.h"

namespace maxtext::testing {
namespace {

std::string bytes(std::initializer_list<int> values) { return {values.begin(), values.end()}; }

TEST(CompileOptions, CountsOfDevices) {
  EXPECT_EQ(serialize({.replicas = 1, .device_ids = {}, .flags = {}}), bytes({0x1a, 4, 0x20, 1, 0x28, 1}));
  EXPECT_EQ(serialize({.replicas = 300, .device_ids = {}, .flags = {}}), bytes({0x1a, 5, 0x20, 0xac, 2, 0x28, 1}));
}

TEST(CompileOptions, DevicesOfReplicas) {
  // {1: 3 replicas, 2: 1 computation, 3: {1: [2, 0, 300]}} as field 9.
  EXPECT_EQ(serialize({.replicas = 3, .device_ids = {2, 0, 300}, .flags = {}}),
            bytes({0x1a, 18, 0x20, 3, 0x28, 1, 0x4a, 12, 0x08, 3, 0x10, 1, 0x1a, 6, 0x0a, 4, 2, 0, 0xac, 2}));
}

TEST(CompileOptions, FlagsOfEveryKind) {
  XlaFlags flags;
  flags["b"] = true;
  flags["d"] = 1.0;
  flags["i"] = std::int64_t{-1};
  flags["s"] = std::string("xy");
  EXPECT_EQ(serialize({.replicas = 1, .device_ids = {}, .flags = flags}),
            bytes({0x1a, 4,    0x20, 1, 0x28, 1,                                                               //
                   0x3a, 7,    0x0a, 1, 'b',  0x12, 2,  0x10, 1,                                               //
                   0x3a, 14,   0x0a, 1, 'd',  0x12, 9,  0x21, 0,    0,    0,    0,    0,    0,    0xf0, 0x3f,  //
                   0x3a, 16,   0x0a, 1, 'i',  0x12, 11, 0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,  //
                   0xff, 0x01,                                                                                 //
                   0x3a, 9,    0x0a, 1, 's',  0x12, 4,  0x0a, 2,    'x',  'y'}));
}

TEST(CompileOptions, WhatWouldAbortAPluginIsRefused) {
  EXPECT_EQ(error_of([] { serialize({.replicas = 0, .device_ids = {}, .flags = {}}); }),
            "xla: a program for 0 replicas");
  EXPECT_EQ(error_of([] { serialize({.replicas = 2, .device_ids = {1}, .flags = {}}); }),
            "xla: 1 device ids for 2 replicas");
}

}  // namespace
}  // namespace maxtext::testing
