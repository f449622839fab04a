# Writes the C++ file OUTPUT with the TOML files of the list FILES, in order.
set(entries "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND entries "    {\"${name}\", R\"profile(${text})profile\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"netsim/profile.h\"

namespace edgedraft::netsim {
namespace {

const ShippedProfile kProfiles[] = {
${entries}};

}  // namespace

const std::span<const ShippedProfile> kShippedProfiles = kProfiles;

}  // namespace edgedraft::netsim
")
