// Tensors in memory that somebody else owns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cpu/device.h"
#include "tensor/safetensors.h"
#include "testing/temporary_directory.h"

namespace maxtext::testing {
namespace {

using Floats = std::vector<float>;

TEST(Borrow, TakesNoCopyAndKeepsTheOwner) {
  CpuDevice device;
  auto owner = std::make_shared<Floats>(Floats{1, 2, 3, 4, 5, 6});
  const std::weak_ptr<Floats> watch = owner;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(*owner));
  Tensor tensor = device->borrow({{3, 2}, DType::float32}, bytes, owner);
  owner.reset();
  EXPECT_EQ(device->host_bytes(tensor).data(), bytes.data());
  EXPECT_EQ(get<float>(*device, tensor), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(device->memory().live_bytes(), 0);
  EXPECT_EQ(device->memory().borrowed_bytes(), 24);
  EXPECT_EQ(device->pooled_bytes(), 0);
  Tensor row = device->apply_one(Slice{.axis = 0, .start = 1, .length = 1}, {tensor});
  tensor = Tensor();
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(get<float>(*device, row), (Floats{3, 4}));
  row = Tensor();
  EXPECT_TRUE(watch.expired());
  EXPECT_EQ(device->memory().borrowed_bytes(), 0);
}

TEST(Borrow, IsOnlyRead) {
  CpuDevice device;
  const auto owner = std::make_shared<Floats>(Floats{1, 2, 3, 4});
  const Tensor tensor = device->borrow({{4}, DType::float32}, std::as_bytes(std::span(*owner)), owner);
  const Tensor view = device->apply_one(View{.first_element = 2, .shape = {2}}, {tensor});
  const Tensor mine = put(*device, {2}, Floats{10, 20});
  EXPECT_EQ(get<float>(*device, device->apply_one(Add{}, {view, mine})), (Floats{13, 24}));
  EXPECT_EQ(get<float>(*device, device->apply_one(Add{.in_place = true}, {mine, view})), (Floats{13, 24}));
  for (const Tensor& read_only : {tensor, view}) {
    EXPECT_THAT(
        [&] {
          device->apply_one(Add{.in_place = true}, {read_only, read_only});
        },
        ::testing::ThrowsMessage<Error>("add: input 0 would be overwritten, but its memory is borrowed"));
  }
  EXPECT_THAT([&] { device->write(view, std::as_bytes(std::span(*owner)).first(8)); },
              ::testing::ThrowsMessage<Error>("write: the memory of float32[2] is borrowed"));
  EXPECT_THROW(device->apply(GatedActivationBackward{.in_place = true}, {mine, view, mine}), Error);
  EXPECT_EQ(*owner, (Floats{1, 2, 3, 4}));
}

TEST(Borrow, ACountOfBytesThatDoesNotFitIsAnError) {
  CpuDevice device;
  const Floats values(3);
  EXPECT_THAT(
      [&] {
        device->borrow({{4}, DType::float32}, std::as_bytes(std::span(values)), nullptr);
      },
      ::testing::ThrowsMessage<Error>("borrow: float32[4] takes 16 bytes, but 12 were given"));
  EXPECT_EQ(device->borrow({{0, 4}, DType::float32}, {}, nullptr).elements(), 0);
}

/// Elements that no load of their type can reach are copied; that counts as allocated, and stays read-only.
TEST(Borrow, WhatIsNotAlignedToItsElementsIsCopied) {
  CpuDevice device;
  const Floats values{1, 2, 3};
  alignas(8) std::array<std::byte, 16> bytes{};
  std::memcpy(bytes.data() + 2, values.data(), 12);
  const Tensor tensor = device->borrow({{3}, DType::float32}, std::span(bytes).subspan(2, 12), nullptr);
  EXPECT_EQ(get<float>(*device, tensor), values);
  EXPECT_EQ(device->memory().borrowed_bytes(), 0);
  EXPECT_EQ(device->memory().live_bytes(), 12);
  EXPECT_THROW(device->write(tensor, std::as_bytes(std::span(values))), Error);
}

/// Two bytes into a file lies an embedding that is also the head, as in small models with tied weights.
TEST(Borrow, WeightsOfAMappedFile) {
  TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "model.safetensors";
  const std::vector<std::uint16_t> first{0x3f80};
  // 1, 2, 3, -1, 0.5, 0 as bfloat16.
  const std::vector<std::uint16_t> table{0x3f80, 0x4000, 0x4040, 0xbf80, 0x3f00, 0x0000};
  write_safetensors(path, std::vector<NamedBytes>{
                              {"first", {{1}, DType::bfloat16}, std::as_bytes(std::span(first))},
                              {"table", {{3, 2}, DType::bfloat16}, std::as_bytes(std::span(table))},
                          });
  CpuDevice device({.threads = 1, .fast_few_rows = true});
  Tensor weight;
  {
    const auto file = std::make_shared<SafetensorsFile>(path);
    const SafetensorsEntry& entry = file->at("table");
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(entry.bytes.data()) % 4, 2U);
    weight = device->borrow(entry.spec, entry.bytes, file);
  }
  EXPECT_EQ(device->memory().borrowed_bytes(), 12);
  const Tensor ids = put(*device, {2}, std::vector<std::int32_t>{2, 0});
  const Tensor rows = device->apply_one(Embedding{}, {weight, ids});
  EXPECT_EQ(get<float>(*device, rows), (Floats{0.5F, 0, 1, 2}));
  EXPECT_EQ(get<float>(*device, device->apply_one(Linear{}, {rows, weight})), (Floats{0.5F, 1.5F, 0.25F, 5, 1, 0.5F}));
}

}  // namespace
}  // namespace maxtext::testing
