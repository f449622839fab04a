#include "shared/drafting/kinds.h"
#include "tests/support/reference_backend.h"

#include <gtest/gtest.h>

#include <set>

namespace edgedraft {
namespace {

GgufFile demo(const std::string& name) {
  return GgufFile::open(std::string(EDGEDRAFT_MODELS) + "/" + name + ".gguf").value();
}

TEST(DrafterKindsTest, NamesAreDistinct) {
  std::set<std::string_view> names;
  for (const DrafterKind* kind : drafter_kinds()) {
    EXPECT_TRUE(names.insert(kind->name).second) << kind->name;
    EXPECT_EQ(find_drafter_kind(kind->name), kind);
    EXPECT_NE(drafter_kind_names().find(kind->name), std::string::npos);
  }
  EXPECT_EQ(find_drafter_kind("nobody"), nullptr);
}

TEST(DrafterKindsTest, BundleIsReadByItsOwnKindOnly) {
  for (const char* name : {"moa-tli0", "moa-tli1", "eagle", "eagle-hass", "independent"}) {
    const GgufFile file = demo(name);
    const auto own = drafter_kind_of(file);
    ASSERT_TRUE(own) << own.error().message;
    for (const DrafterKind* kind : drafter_kinds()) {
      if (kind->is_bundle == nullptr) continue;
      EXPECT_EQ(kind->is_bundle(file), kind == *own) << name << ", " << kind->name;
      const auto model = kind->read(file);
      EXPECT_EQ(model.has_value(), kind == *own) << name << ", " << kind->name;
    }
  }
}

// A tap is compared as a whole, so its name must describe everything it sends.
TEST(DrafterKindsTest, TapNamesAreDistinct) {
  std::set<std::string> taps;
  for (const char* name : {"moa-tli0", "moa-tli1", "eagle", "independent"}) {
    const GgufFile file = demo(name);
    const auto model = (*drafter_kind_of(file))->read(file).value();
    const auto backend = make_reference_backend();
    const auto tap = model->make_tap(*backend);
    EXPECT_EQ(tap == nullptr, model->facts().tap.empty()) << name;
    EXPECT_TRUE(taps.insert(model->facts().tap).second) << name;
    EXPECT_EQ(model->facts().pace_name, name);  // the demo's files have these names
  }
}

}  // namespace
}  // namespace edgedraft
