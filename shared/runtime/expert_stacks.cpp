#include "shared/runtime/expert_stacks.h"

#include <algorithm>
#include <limits>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "shared/base/check.h"
#include "shared/runtime/cpu_experts.h"
#include "shared/runtime/cpu_memory.h"

namespace edgedraft {
namespace {

#if defined(__linux__)
std::uint64_t machine_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

// Pages that the range only touches stay, since its neighbours use them.
void return_pages(std::byte* begin, std::size_t count) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + page - 1) / page * page;
  const std::uintptr_t last = (address + count) / page * page;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}
#else
std::uint64_t machine_bytes() {
  return std::numeric_limits<std::uint64_t>::max();
}
void return_pages(std::byte* /*begin*/, std::size_t /*count*/) {}
#endif

}  // namespace

std::uint64_t expert_bytes_max(std::uint64_t wanted, const MemoryMeter& meter) {
  return std::min(wanted == 0 ? machine_bytes() / 2 : wanted, meter.limit() / 2);
}

ExpertStack::~ExpertStack() {
  if (stacks_) stacks_->remove(*this);
}

std::unique_ptr<ExpertStack> ExpertStacks::add(const cpu::PackArgs& first, std::size_t experts,
                                               std::size_t step) {
  auto stack = std::unique_ptr<ExpertStack>(new ExpertStack);
  stack->expert_bytes_ = cpu::packed_bytes(first.type, first.outputs, first.inputs);
  const std::uint64_t bytes = stack->expert_bytes_ * experts;
  stack->held_bytes_ =
      std::min(HostBuffer::taken_by_packed(bytes), bytes_max_ - std::min(bytes_max_, held_bytes_));
  stack->held_ = HeldMemory(meter_, stack->held_bytes_, MemoryMeter::Use::weights);
  stack->memory_ = HostBuffer::for_packed(bytes);
  stack->first_ = first;
  stack->file_step_ = step;
  stack->first_.panels = stack->memory_->mutable_data();
  stack->states_.assign(experts, ExpertStack::State::absent);
  stack->stacks_ = shared_from_this();
  held_bytes_ += stack->held_bytes_;
  all_.push_back(stack.get());
  return stack;
}

void ExpertStacks::remove(ExpertStack& stack) {
  const auto packed = stack.states_.size() - static_cast<std::size_t>(std::ranges::count(
                                                 stack.states_, ExpertStack::State::absent));
  packed_bytes_ -= packed * stack.expert_bytes_;
  held_bytes_ -= stack.held_bytes_;
  std::erase(all_, &stack);
  next_stack_ = 0;
  next_expert_ = 0;
}

std::span<const std::uint32_t> ExpertStacks::use(const ExpertStack& stack,
                                                 std::span<const ExpertGroups::Block> blocks) {
  using State = ExpertStack::State;
  missing_.clear();
  for (const ExpertGroups::Block& block : blocks) {
    State& state = stack.states_[block.expert];
    if (state == State::absent) missing_.push_back(block.expert);
    state = State::in_call;
  }
  if (!missing_.empty()) {
    const std::uint64_t bytes = missing_.size() * stack.expert_bytes_;
    make_room(bytes);
    packed_bytes_ += bytes;
  }
  for (const ExpertGroups::Block& block : blocks) stack.states_[block.expert] = State::recent;
  return missing_;
}

// Goes round all experts: the first time that it meets one since its last use, it only notes that.
void ExpertStacks::make_room(std::uint64_t bytes) {
  using State = ExpertStack::State;
  std::size_t unchanged = 0;  // experts passed since the last that changed
  std::size_t all = 0;
  for (const ExpertStack* stack : all_) all += stack->states_.size();
  while (packed_bytes_ + bytes > bytes_max_ && unchanged < all) {
    if (next_stack_ >= all_.size()) next_stack_ = 0;
    ExpertStack& stack = *all_[next_stack_];
    if (next_expert_ >= stack.states_.size()) {
      next_expert_ = 0;
      ++next_stack_;
      continue;
    }
    State& state = stack.states_[next_expert_];
    ++unchanged;
    if (state == State::idle) {
      drop(stack, next_expert_);
      unchanged = 0;
    } else if (state == State::recent) {
      state = State::idle;
      unchanged = 0;
    }
    ++next_expert_;
  }
}

void ExpertStacks::drop(ExpertStack& stack, std::size_t expert) {
  stack.states_[expert] = ExpertStack::State::absent;
  packed_bytes_ -= stack.expert_bytes_;
  return_pages(stack.memory_->mutable_data() + expert * stack.expert_bytes_, stack.expert_bytes_);
}

void ExpertStacks::pack(const ExpertStack& stack, std::span<const std::uint32_t> experts,
                        std::size_t begin, std::size_t end) {
  const std::size_t panels = cpu::panel_count(stack.first_.outputs);
  for (std::size_t panel = begin; panel < end;) {
    const std::size_t i = panel / panels;
    const std::size_t last = std::min(end, (i + 1) * panels);
    cpu::PackArgs args = stack.first_;
    args.weight += experts[i] * stack.file_step_;
    args.panels += experts[i] * stack.expert_bytes_;
    pack_matrix(args, panel - i * panels, last - i * panels);
    panel = last;
  }
}

}  // namespace edgedraft
