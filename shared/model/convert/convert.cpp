#include "shared/model/convert/convert.h"

#include <system_error>

#include "shared/model/convert/gguf_model.h"
#include "shared/model/convert/hf_model.h"

namespace edgedraft {

Result<ModelPlan> plan_model(const std::filesystem::path& input, std::optional<DType> type,
                             KeptTensors is_kept) {
  std::error_code unknown;  // opening it as a file says what is wrong with it
  if (std::filesystem::is_directory(input, unknown)) {
    return plan_hf_model(input, type.value_or(kTypeOfDirectories));
  }
  return plan_gguf_model(input, type, is_kept);
}

Result<void> convert_model(const ConvertOptions& options) {
  const auto plan = plan_model(options.input, options.type, options.is_kept);
  if (!plan) return plan.error();
  if (options.on_notice && !plan->notice.empty()) options.on_notice(plan->notice);
  return write_model(*plan, options.output);
}

}  // namespace edgedraft
