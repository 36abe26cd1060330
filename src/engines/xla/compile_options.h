// XLA's CompileOptionsProto, the few fields that are needed, in protobuf's wire format.
#pragma once

#include <string>

namespace maxtext {

/// `replicas` devices with one partition each, replica i on device i.
std::string compile_options(int replicas);

}  // namespace maxtext
