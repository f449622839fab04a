# Sets EDGEDRAFT_HAS_CUDA and enables the language, by EDGEDRAFT_CUDA: AUTO (where there is a
# toolkit), ON (required) or OFF.
set(EDGEDRAFT_CUDA_ARCHITECTURES "" CACHE STRING
    "Compute capabilities, such as 75;80;86;89;90;100;120; empty: this machine's GPU, else 7.5, 8.x, 9.0 and newer")
set(EDGEDRAFT_HAS_CUDA 0)
if(EDGEDRAFT_CUDA)
  # Where NVIDIA's packages put it, when PATH does not name it.
  find_program(EDGEDRAFT_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  mark_as_advanced(EDGEDRAFT_NVCC)
  if(EDGEDRAFT_NVCC)
    if(NOT EDGEDRAFT_CUDA_ARCHITECTURES)
      execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
      if(no_gpu)
        # Machine code for 7.5, 8.x and 9.0, and intermediate code that drivers compile for what is newer.
        set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 90)
      else()
        set(CMAKE_CUDA_ARCHITECTURES native)
      endif()
    else()
      set(CMAKE_CUDA_ARCHITECTURES ${EDGEDRAFT_CUDA_ARCHITECTURES})
    endif()
    if(NOT CMAKE_CUDA_COMPILER)
      set(CMAKE_CUDA_COMPILER ${EDGEDRAFT_NVCC})
    endif()
    set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no later one of CUDA 13's nvcc
    enable_language(CUDA)
    find_package(CUDAToolkit 12.0 REQUIRED)
    set(EDGEDRAFT_HAS_CUDA 1)
  elseif(NOT EDGEDRAFT_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "EDGEDRAFT_CUDA=ON, but there is no nvcc: install the CUDA toolkit, or name it with CUDACXX=/path/to/nvcc")
  else()
    message(STATUS "No CUDA toolkit: the server computes on the CPU alone")
  endif()
endif()
