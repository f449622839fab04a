#include "shared/net/link_plug.h"

#include <utility>

namespace edgedraft {

void LinkPlug::put(bool in) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(is_in_, in) == in) return;
  for (const auto& [id, on_change] : watches_) on_change();
}

bool LinkPlug::is_in() const {
  const std::scoped_lock lock(mutex_);
  return is_in_;
}

LinkPlug::Watch::Watch(LinkPlug& plug, std::function<void()> on_change) : plug_(plug) {
  const std::scoped_lock lock(plug.mutex_);
  id_ = ++plug.last_id_;
  plug.watches_.emplace(id_, std::move(on_change));
}

LinkPlug::Watch::~Watch() {
  const std::scoped_lock lock(plug_.mutex_);
  plug_.watches_.erase(id_);
}

}  // namespace edgedraft
