// JSON whose fields stay in the order in which they were written.
#pragma once

#include <nlohmann/json.hpp>

namespace maxtext::bench {

using Json = nlohmann::ordered_json;

}  // namespace maxtext::bench
