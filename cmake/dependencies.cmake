find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(JSONC REQUIRED IMPORTED_TARGET json-c>=0.16)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl>=7.88)
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl>=3.0)
pkg_check_modules(LWS REQUIRED IMPORTED_TARGET libwebsockets>=4.1)
pkg_check_modules(FYAML REQUIRED IMPORTED_TARGET libfyaml>=0.7.12)
if(GQ_TESTS)
  pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka>=1.1.5)
endif()

# llhttp: the system's library where there is one (Debian 13, Fedora, Alpine); on Debian 12 the
# sources that the package node-llhttp carries, compiled in.
pkg_check_modules(LLHTTP IMPORTED_TARGET libllhttp)
if(LLHTTP_FOUND)
  add_library(gq_llhttp INTERFACE)
  target_link_libraries(gq_llhttp INTERFACE PkgConfig::LLHTTP)
else()
  find_path(GQ_LLHTTP_SOURCE llhttp.c PATHS /usr/share/llhttp NO_DEFAULT_PATH)
  find_path(GQ_LLHTTP_INCLUDE llhttp.h
    PATHS /usr/share/include/llhttp /usr/include/llhttp NO_DEFAULT_PATH)
  if(NOT GQ_LLHTTP_SOURCE OR NOT GQ_LLHTTP_INCLUDE)
    message(FATAL_ERROR "llhttp not found: install libllhttp-dev, or node-llhttp on Debian 12")
  endif()
  add_library(gq_llhttp STATIC
    ${GQ_LLHTTP_SOURCE}/api.c ${GQ_LLHTTP_SOURCE}/http.c ${GQ_LLHTTP_SOURCE}/llhttp.c)
  target_include_directories(gq_llhttp SYSTEM PUBLIC ${GQ_LLHTTP_INCLUDE})
  # Version 8 is lenient unless told: a chunk's data must end with CRLF, and the like.
  target_compile_definitions(gq_llhttp PUBLIC LLHTTP_STRICT_MODE=1)
  target_compile_options(gq_llhttp PRIVATE -w)
endif()
