# ckn_library(NAME [SOURCES ...] [DEPS ...]) declares the library of one folder. Its test binary links this library
# and nothing above it, so an include that points the wrong way does not link.
function(ckn_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ckn_warnings)
    target_link_libraries(${name} PUBLIC ckn_options ${ARG_DEPS})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ckn_options ${ARG_DEPS})
  endif()
endfunction()

# ckn_test(NAME SOURCES ... DEPS ... [TIMEOUT SECONDS] [LABEL LABEL]) declares one GoogleTest binary; ctest sees each of
# its cases. The label "concurrent" is for what several threads run and ThreadSanitizer can judge: not gRPC, which is not
# instrumented. The target concurrent_tests builds these binaries alone.
add_custom_target(concurrent_tests)
function(ckn_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;LABEL" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ckn_warnings ${ARG_DEPS} GTest::gmock_main)
  target_compile_definitions(${name} PRIVATE CKN_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_LABEL STREQUAL "concurrent")
    add_dependencies(concurrent_tests ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABEL}")
endfunction()
