# Kernel sources, for nvcc here and for the host compiler in tests/cuda_host.
set(cuda_kernel_sources
  add_bias.cu argmax.cu attention.cu attention_combine.cu attention_plan.cu attention_tiles.cu
  block_memory.cu compact.cu convolve.cu delta_rule.cu early_start.cu embed.cu expert_int8_matmul.cu
  expert_matmul.cu gate.cu gather_layers.cu group_attention.cu group_experts.cu group_mean.cu
  int8_matmul.cu int8_matmul_wide.cu matmul.cu matmul_wide.cu mix.cu pack_weight.cu quantize.cu
  rms_norm.cu rope.cu round_rows.cu route.cu scale.cu soft_cap.cu store.cu top_k.cu)
list(TRANSFORM cuda_kernel_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

set(cuda_check_sources
  check/bench.cpp check/check_attention.cpp check/check_caches.cpp check/check_products.cpp
  check/check_recurrent.cpp check/check_rows.cpp check/checks.cpp check/main.cpp check/pass.cpp check/weights.cpp)
list(TRANSFORM cuda_check_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
