# Warnings are errors, under both compilers, for our own code only.
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror)
# Contraction into FMA is decided by the compiler per expression, so results would differ between
# instruction sets and inlining decisions; kernels that want an FMA say so.
add_compile_options(-ffp-contract=off)
if(MAXTEXT_SANITIZE)
  add_compile_options(-fsanitize=${MAXTEXT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MAXTEXT_SANITIZE})
endif()
if(MAXTEXT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # coverage, which leads the fuzzer
endif()
