#pragma once

#include "shared/model/families/family.h"

// Families whose layers drafters have.
namespace edgedraft {

extern const Family kGemma4;
extern const Family kLlama;
extern const Family kQwen3;

}  // namespace edgedraft
