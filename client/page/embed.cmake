# Writes FILES, "PATH|TYPE|FILE" each, as arrays of C++: cmake -DOUTPUT=... -DFILES=... -P embed.cmake
set(arrays)
set(table)
set(number 0)
foreach(entry IN LISTS FILES)
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 path)
  list(GET entry 1 type)
  list(GET entry 2 file)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}};\n")
  string(APPEND table "    {\"${path}\", \"${type}; charset=utf-8\", {reinterpret_cast<const char*>(kFile${number}), sizeof kFile${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include \"client/page/page_files.h\"

namespace edgedraft::client {
namespace {

${arrays}
const PageFile kFiles[] = {
${table}};

}  // namespace

std::span<const PageFile> page_files() {
  return kFiles;
}

}  // namespace edgedraft::client
")
