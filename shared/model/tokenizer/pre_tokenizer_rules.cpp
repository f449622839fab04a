#include "shared/model/tokenizer/pre_tokenizer_rules.h"

#include <algorithm>

namespace edgedraft {

constexpr char kGpt2Pattern[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kDigitPattern[] = R"(\p{N})";
constexpr char kRunAtEndPattern[] = R"(\s+$)";
constexpr char kDigitGroupsPattern[] = R"((?=(\d{3})+(?!\d)))";
constexpr char kDigitGroupsOfWordPattern[] = R"(\d{1,3}(?=(?:\d{3})*\b))";
constexpr char kLlama3Pattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kHalvedBlanksPattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|)"
    R"(\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|)"
    R"(\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})";

namespace {

// Ranges with look-alike letters are written as code points, which editors preserve.
constexpr char kLineEnd[] = R"([\r\n])";
constexpr char kLines[] = R"([^\n]+|[\n]+)";
constexpr char kDigitRun[] = R"(\p{N}+)";
constexpr char kThreeDigits[] = R"(\p{N}{1,3})";
constexpr char kHundreds[] = "[0-9][0-9][0-9]";
constexpr char kDeepSeekCjk[] = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+";
constexpr char kCjk[] = "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+";
constexpr char kClauses[] = " ?[^(\\s|.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C)]+";
// One ASCII punctuation character joins the ASCII letters after it.
constexpr char kDeepSeek3Words[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2Words[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// A capital starts a word.
constexpr char kGpt4oWords[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr const char* kLlama3[] = {kLlama3Pattern};
constexpr const char* kJais2[] = {kHalvedBlanksPattern};
constexpr const char* kMiniCpm5[] = {
    kThreeDigits, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|)"
                  R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kQwen2[] = {kQwen2Words};
constexpr const char* kLaguna[] = {kLines, kQwen2Words};
constexpr const char* kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
    R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kUfakzeka[] = {R"([^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                     R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}|)"
    R"( ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kBailing[] = {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}|)"
                                    R"( ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr const char* kExaoneMoe[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr const char* kGpt2[] = {kGpt2Pattern};
constexpr const char* kDigitsThenGpt2[] = {kDigitPattern, kGpt2Pattern};
constexpr const char* kFalcon[] = {R"([\p{P}$+<=>^~|`]+)", kGpt2Pattern, kHundreds};
// llama.cpp's choice for files that name no other.
constexpr const char* kDefault[] = {R"([\p{P}$+<=>^~|]+)", kGpt2Pattern, kDigitRun, kHundreds};
constexpr const char* kChameleon[] = {
    "<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    R"(([\t\n]|    |  ))",     kDigitPattern,
    R"([\p{P}!-/:-@\[-`{-~])", kGpt2Pattern};
constexpr const char* kBloom[] = {kClauses};
constexpr const char* kViking[] = {kClauses, kDigitPattern};
constexpr const char* kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kGpt4o[] = {kGpt4oWords};
constexpr const char* kTinyAya[] = {kDigitGroupsOfWordPattern, kGpt4oWords};
constexpr const char* kYoutu[] = {
    "[\uAC00-\uD7A3\u3131-\u318E]+|"
    "[\uFF01\u2026\u201C\u201D\u2018\u2019\u2014\uFF1A\uFF1B\uFF0C\u3001-\u303F\uFE30-\uFE4F]+|"
    "[\u3105-\u312F]+|[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// Published for engines with intersections: a letter here is not a Han character.
constexpr const char* kKimiK2[] = {
    R"(\p{sc:Han}+|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*)"
    R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?(?:(?!\p{sc:Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+)"
    R"((?:(?!\p{sc:Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr const char* kSuperBpe[] = {kDigitRun, kDigitGroupsPattern};
constexpr const char* kAfMoe[] = {
    kDigitRun, kDigitGroupsPattern,
    "[\u4E00-\u9FFF\u3400-\u4DBF\uF900-\uFAFF\u3040-\u309F\u30A0-\u30FF\uFF65-\uFF9F"
    "\u2F00-\u2FDF\u0E40-\u0E7F\u0E80-\u0EFF\u1780-\u17FF\u1000-\u109F\uAA60-\uAA7F"
    "\uA9E0-\uA9FF\uAC00-\uD7AF\u1100-\u11FF]+",
    kDeepSeek3Words};
constexpr const char* kDeepSeekLlm[] = {
    kLineEnd,
    // Alphabets with upper and lower case.
    "\\s?[A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA"
    "\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373\u0376\u0377"
    "\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5"
    "\u03F7-\u0481\u048A-\u052F\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5"
    "\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B"
    "\u1D6B-\u1D77\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D"
    "\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
    "\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4"
    "\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB\u1FE0-\u1FEC"
    "\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115"
    "\u2119-\u211D\u2124\u2126\u2128\u212A-\u212D\u212F-\u2134\u2139"
    "\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B"
    "\u2C7E-\u2CE4\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B"
    "\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A"
    "\U00010400-\U0001044F\U000104B0-\U000104D3\U000104D8-\U000104FB\U00010C80-\U00010CB2"
    "\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943]+",
    "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F"
    "\u3000-\u3002]+",
    kRunAtEndPattern, kDeepSeekCjk, kDigitPattern};
constexpr const char* kDeepSeekCoder[] = {kLineEnd, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk,
                                          kDigitPattern};
constexpr const char* kDeepSeek3[] = {kThreeDigits, kCjk, kDeepSeek3Words};
constexpr const char* kSpark[] = {
    kThreeDigits, kCjk,
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|)"
    R"([^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+)",
    kDigitPattern};
// SentencePiece's pieces span words.
constexpr const char* kGemma4[] = {kLines};

// Source    llama.cpp's table of pre-tokenizers; the models' tokenizer.json if they differ
constexpr PreTokenizerRules kRules[] = {
    {.name = "llama-bpe",
     .also = "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     .patterns = kLlama3,
     .ignore_merges = true,
     .adds_bos = true},
    {.name = "smaug-bpe", .also = "dbrx glm4 chatglm-bpe", .patterns = kLlama3},
    {.name = "jais-2", .also = {}, .patterns = kJais2},
    {.name = "minicpm5", .also = {}, .patterns = kMiniCpm5, .ignore_merges = true},
    {.name = "qwen2", .also = "f2llmv2", .patterns = kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen",
     .also = "kormo megrez stablelm2 hunyuan grok-2 solar-open",
     .patterns = kQwen2},
    {.name = "qwen35", .also = {}, .patterns = kQwen35},
    {.name = "laguna", .also = {}, .patterns = kLaguna},
    {.name = "ufakzeka", .also = {}, .patterns = kUfakzeka},
    {.name = "seed-coder", .also = {}, .patterns = kSeedCoder},
    {.name = "bailingmoe", .also = "bailingmoe2 llada-moe", .patterns = kBailing},
    {.name = "exaone-moe", .also = {}, .patterns = kExaoneMoe},
    {.name = "gpt-2",
     .also = "phi-2 olmo jais trillion granite-docling gigachat a.x-4.0 mellum exaone4 modern-bert "
             "roberta-bpe jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code",
     .patterns = kGpt2},
    {.name = "mpt", .also = {}, .patterns = kGpt2, .nfc = true},
    {.name = "starcoder",
     .also = "refact command-r smollm codeshell exaone minerva-7b mellum2",
     .patterns = kDigitsThenGpt2},
    {.name = "falcon", .also = {}, .patterns = kFalcon},
    {.name = "default", .also = {}, .patterns = kDefault},
    {.name = "chameleon", .also = {}, .patterns = kChameleon, .adds_bos = true},
    {.name = "poro-chat", .also = "bloom gpt3-finnish", .patterns = kBloom},
    {.name = "viking", .also = {}, .patterns = kViking},
    {.name = "tekken", .also = {}, .patterns = kTekken, .ignore_merges = true, .adds_bos = true},
    {.name = "gpt-4o", .also = "llama4 kanana2 talkie minimax-m2", .patterns = kGpt4o},
    {.name = "granite-embed-multi-97m", .also = {}, .patterns = kGpt4o, .ignore_merges = true},
    {.name = "tiny_aya", .also = "cohere2moe", .patterns = kTinyAya},
    {.name = "youtu", .also = {}, .patterns = kYoutu, .ignore_merges = true},
    {.name = "kimi-k2", .also = {}, .patterns = kKimiK2},
    {.name = "superbpe", .also = {}, .patterns = kSuperBpe},
    {.name = "afmoe", .also = {}, .patterns = kAfMoe},
    {.name = "deepseek-llm", .also = {}, .patterns = kDeepSeekLlm},
    {.name = "deepseek-coder", .also = {}, .patterns = kDeepSeekCoder},
    {.name = "deepseek-v3", .also = "hunyuan-dense joyai-llm hy_v4", .patterns = kDeepSeek3},
    {.name = "spark2_5", .also = {}, .patterns = kSpark},
    {.name = "gemma4",
     .also = "granite-embed-multi-311m",
     .patterns = kGemma4,
     .requires_bos = true,
     .is_plain = true},
    {.name = "sarvam-moe", .also = {}, .patterns = kGemma4, .is_plain = true},
};

// Whether a list separated by spaces has this name.
bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::string_view first = names.substr(0, names.find(' '));
    if (first == name) return true;
    names.remove_prefix(std::min(first.size() + 1, names.size()));
  }
  return false;
}

}  // namespace

std::span<const PreTokenizerRules> pre_tokenizer_rules() {
  return kRules;
}

std::string pre_tokenizer_names() {
  std::string names;
  for (const PreTokenizerRules& rules : kRules) {
    names.append(names.empty() ? "" : " ").append(rules.name);
    if (!rules.also.empty()) names.append(" ").append(rules.also);
  }
  return names;
}

Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::string_view name) {
  for (const PreTokenizerRules& rules : kRules) {
    if (rules.name == name || lists(rules.also, name)) return &rules;
  }
  return Error{Errc::unsupported,
               "the pre-tokenizer '" + std::string(name) +
                   "' (tokenizer.ggml.pre) is not supported; edgedraft convert --pre NAME stores "
                   "another, where NAME is one of " +
                   pre_tokenizer_names()};
}

Result<const PreTokenizerRules*> find_pre_tokenizer_rules(std::span<const std::string> patterns,
                                                          bool nfc, bool ignore_merges) {
  for (const PreTokenizerRules& rules : kRules) {
    if (!rules.is_plain && std::ranges::equal(rules.patterns, patterns) && rules.nfc == nfc &&
        rules.ignore_merges == ignore_merges) {
      return &rules;
    }
  }
  std::string shown;
  for (const std::string& pattern : patterns) shown += (shown.empty() ? "" : ", then ") + pattern;
  return Error{Errc::unsupported, std::string("byte-level BPE ") + (nfc ? "of NFC text " : "") +
                                      (ignore_merges ? "with ignore_merges " : "") + "split by " +
                                      (shown.empty() ? "nothing" : shown) +
                                      " is not supported; --pre NAME chooses rules"};
}

}  // namespace edgedraft
