# The CUDA backend, for the toolkit here and for the host in tests/cuda_host.
set(cuda_backend_sources
  cuda_arguments.cpp cuda_backend.cpp cuda_devices.cpp cuda_gemm.cpp cuda_memory.cpp cuda_products.cpp
  cuda_queue.cpp cuda_recurrent.cpp cuda_sequences.cpp cuda_views.cpp)
list(TRANSFORM cuda_backend_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
