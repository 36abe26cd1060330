// Options and attributes in the C interface's form.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engines/xla/pjrt/api.h"
#include "engines/xla/pjrt_options.h"

namespace maxtext::pjrt {

/// Refers to `options`, which have to outlive it.
std::vector<PJRT_NamedValue> named_values(const PjrtOptions& options);
std::vector<PJRT_NamedValue> named_values(PjrtOptions&& options) = delete;

/// A list of integers, or one integer; empty where there is no such attribute.
std::vector<std::int64_t> integers_of(std::span<const PJRT_NamedValue> attributes, std::string_view name);

}  // namespace maxtext::pjrt
