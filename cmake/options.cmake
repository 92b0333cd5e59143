option(GQ_TESTS "build the unit tests" ON)
option(GQ_BENCH "build the programs of tests/bench" OFF)
option(GQ_FUZZ "build the libFuzzer targets (clang)" OFF)
option(GQ_WERROR "treat warnings as errors (CI)" OFF)
option(GQ_HARDEN "stack protector, FORTIFY, full RELRO" OFF)
set(GQ_SANITIZE "" CACHE STRING "value of -fsanitize=, or empty")

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

find_program(GQ_CCACHE ccache)
if(GQ_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${GQ_CCACHE})
endif()

# What every target of ours is compiled with; sources of third parties are not.
add_library(gq_flags INTERFACE)
target_compile_definitions(gq_flags INTERFACE _GNU_SOURCE)
target_include_directories(gq_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(gq_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wundef -Wstrict-prototypes -Wmissing-prototypes
  -fno-strict-aliasing -fno-omit-frame-pointer
  $<$<BOOL:${GQ_WERROR}>:-Werror>)

# Sanitizers concern the whole program, third-party sources included.
if(GQ_SANITIZE)
  add_compile_options(-fsanitize=${GQ_SANITIZE})
  add_link_options(-fsanitize=${GQ_SANITIZE})
  if(GQ_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(GQ_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
if(GQ_HARDEN)
  target_compile_options(gq_flags INTERFACE -fstack-protector-strong -D_FORTIFY_SOURCE=2)
  add_link_options(-Wl,-z,relro,-z,now)
endif()
