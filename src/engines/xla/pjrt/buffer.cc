#include "engines/xla/pjrt/buffer.h"

#include <utility>

#include "engines/xla/pjrt/transfer.h"

namespace maxtext::pjrt {

Buffer::Buffer(std::shared_ptr<PJRT_Client> client, Handle<PJRT_Buffer> buffer, const TensorSpec& spec)
    : client_(std::move(client)), buffer_(std::move(buffer)), spec_(spec) {}

void Buffer::read(std::span<std::byte> destination) const {
  to_host(buffer_.get_deleter().api, buffer_.get(), spec_, destination);
}

}  // namespace maxtext::pjrt
