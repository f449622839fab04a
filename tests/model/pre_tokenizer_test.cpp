#include "shared/model/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace edgedraft {
namespace {

using Words = std::vector<std::string>;

Words words_of(const std::string& name, const std::string& text) {
  const PreTokenizer pre_tokenizer(**find_pre_tokenizer_rules(name));
  Words words;
  pre_tokenizer.split(text, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

TEST(PreTokenizerTest, Gpt2) {
  EXPECT_EQ(words_of("gpt-2", "Hello world's 2024th!?"),
            (Words{"Hello", " world", "'s", " 2024", "th", "!?"}));
  EXPECT_EQ(words_of("gpt-2", "I'LL we'll"), (Words{"I", "'", "LL", " we", "'ll"}));
  EXPECT_EQ(words_of("gpt-2", "a   b\n\n c \t"), (Words{"a", "  ", " b", "\n\n", " c", " \t"}));
  EXPECT_EQ(words_of("gpt-2", "\tx"), (Words{"\t", "x"}));
}

TEST(PreTokenizerTest, Llama3) {
  EXPECT_EQ(words_of("llama-bpe", "I'LL pay 1234567$\n\n now"),
            (Words{"I", "'LL", " pay", " ", "123", "456", "7", "$\n\n", " now"}));
  EXPECT_EQ(words_of("llama-bpe", "a\tb  \n  c"), (Words{"a", "\tb", "  \n", " ", " c"}));
  EXPECT_EQ(words_of("smaug-bpe", "x-ray's"), (Words{"x", "-ray", "'s"}));
  EXPECT_EQ(words_of("llama-bpe", "it'ſ"), (Words{"it", "'ſ"})) << "long s matches s";
}

TEST(PreTokenizerTest, Qwen2SplitsDigits) {
  EXPECT_EQ(words_of("qwen2", "in 2024"), (Words{"in", " ", "2", "0", "2", "4"}));
}

TEST(PreTokenizerTest, StarcoderSplitsDigitsFirst) {
  EXPECT_EQ(words_of("starcoder", "in 24x"), (Words{"in", " ", "2", "4", "x"}));
}

TEST(PreTokenizerTest, DefaultSplitsPunctuationFirst) {
  EXPECT_EQ(words_of("default", "a, b=12345"), (Words{"a", ",", " b", "=", "123", "45"}));
}

// Cut out in this order: line ends, words and punctuation with one preceding white space each,
// trailing white space, CJK, single digits. The text between them stays together.
TEST(PreTokenizerTest, DeepSeekLlm) {
  EXPECT_EQ(words_of("deepseek-llm", "It's 2024, ok?"),
            (Words{"It", "'", "s", " ", "2", "0", "2", "4", ",", " ok", "?"}));
  EXPECT_EQ(words_of("deepseek-llm", "a\r\n\nb"), (Words{"a", "\r", "\n", "\n", "b"}));
  EXPECT_EQ(words_of("deepseek-llm", "a\tb   c  "), (Words{"a", "\tb", "  ", " c", "  "}));
  EXPECT_EQ(words_of("deepseek-llm", "中文abc 日本。かな한"),
            (Words{"中文", "abc", " ", "日本", "。", "かな한"}));
  // Its range of ASCII punctuation, ":-~", includes the letters and cuts them out of words; its CJK
  // begins at U+0800.
  EXPECT_EQ(words_of("deepseek-llm", "été שלום γειά €5"),
            (Words{"é", "t", "é", " שלום", " γειά", " ", "€", "5"}));
  EXPECT_EQ(words_of("deepseek-llm", "ש\U0001E943 ½Σ\u0301"),
            (Words{"ש", "\U0001E943", " ", "½", "Σ", "\u0301"}));
}

TEST(PreTokenizerTest, SplitsLongSpaceRunsInLinearTime) {
  const std::string run(1 << 20, ' ');
  EXPECT_EQ(words_of("deepseek-llm", run + "1"), (Words{run, "1"}));
  EXPECT_EQ(words_of("deepseek-llm", "1" + run), (Words{"1", run}));
}

TEST(PreTokenizerTest, DeepSeekCoder) {
  EXPECT_EQ(words_of("deepseek-coder", "if x==10:\n\treturn"),
            (Words{"if", " x", "==", "1", "0", ":", "\n", "\treturn"}));
  // Letters of any alphabet are letters; symbols are not punctuation.
  EXPECT_EQ(words_of("deepseek-coder", "été שלום中文 日本"),
            (Words{"été", " שלום", "中文", " ", "日本"}));
  EXPECT_EQ(words_of("deepseek-coder", "a += (b)"), (Words{"a", " +=", " (", "b", ")"}));
  EXPECT_EQ(words_of("deepseek-coder", "a  "), (Words{"a", "  "}));
}

TEST(PreTokenizerTest, DeepSeekV3) {
  EXPECT_EQ(words_of("deepseek-v3", "in 12345 days"), (Words{"in", " ", "123", "45", " days"}));
  EXPECT_EQ(words_of("deepseek-v3", "中文abcかな한"), (Words{"中文", "abc", "かな", "한"}));
  // One ASCII punctuation character joins the ASCII letters after it.
  EXPECT_EQ(words_of("deepseek-v3", "f(x) it's @été"),
            (Words{"f", "(x", ")", " it", "'s", " @", "été"}));
  EXPECT_EQ(words_of("deepseek-v3", "== !\r\n\n  b"), (Words{"==", " !\r\n\n", " ", " b"}));
  EXPECT_EQ(words_of("deepseek-v3", "e\u0301x +y"), (Words{"e\u0301x", " +", "y"}))
      << "a mark joins its letter; a symbol joins the space before it";
  EXPECT_EQ(words_of("deepseek-v3", "a\tb"), (Words{"a", "\tb"}));
}

TEST(PreTokenizerTest, QwenFamilies) {
  // Marks belong to their letter from Qwen 3.5 on.
  EXPECT_EQ(words_of("qwen35", "e\u0301x न\u0940 12"),
            (Words{"e\u0301x", " न\u0940", " ", "1", "2"}));
  EXPECT_EQ(words_of("hunyuan", "e\u0301x"), (Words{"e", "\u0301x"}));
  EXPECT_EQ(words_of("laguna", "a \n\n b"), (Words{"a", " ", "\n\n", " b"}));
  EXPECT_EQ(words_of("ufakzeka", "Ankara'da 12"), (Words{"Ankara", "'da", " ", "1", "2"}));
  EXPECT_EQ(words_of("seed-coder", "x !!\n\ny"), (Words{"x", " !!", "\n\n", "y"}));
  EXPECT_EQ(words_of("bailingmoe", "I'LL go\n\nnow"), (Words{"I", "'LL", " go", "\n\n", "now"}));
  EXPECT_EQ(words_of("minicpm5", "in 12345x"), (Words{"in", " ", "123", "45", "x"}));
}

// Words of one clause stay together.
TEST(PreTokenizerTest, ExaoneMoeAndBloomJoinWords) {
  EXPECT_EQ(words_of("exaone-moe", "the cat sat, 12/\n\n"),
            (Words{"the cat sat", ",", " ", "1", "2", "/\n", "\n"}));
  EXPECT_EQ(words_of("poro-chat", "One, two. Three 12"),
            (Words{"One", ",", " two", ".", " Three", " 12"}));
  EXPECT_EQ(words_of("viking", "One 12"), (Words{"One", " ", "1", "2"}));
  EXPECT_EQ(words_of("superbpe", "the cat 1234567 sat"),
            (Words{"the cat ", "1", "234", "567", " sat"}));
}

TEST(PreTokenizerTest, CapitalsStartWords) {
  EXPECT_EQ(words_of("gpt-4o", "HelloWorld's iPhone 12345 a/b//\n"),
            (Words{"Hello", "World's", " i", "Phone", " ", "123", "45", " a", "/b", "//\n"}));
  EXPECT_EQ(words_of("gpt-4o", "ÉTÉété e\u0301"), (Words{"ÉTÉété", " e\u0301"}));
  EXPECT_EQ(words_of("tekken", "HelloWorld's 12"), (Words{"Hello", "World", "'s", " ", "1", "2"}));
  EXPECT_EQ(words_of("minimax-m2", "aB"), (Words{"a", "B"}));
  EXPECT_EQ(words_of("kimi-k2", "中文HelloWorld's日本かな 1234"),
            (Words{"中文", "Hello", "World's", "日本", "かな", " ", "123", "4"}));
  EXPECT_EQ(words_of("youtu", "한글이，。HelloWorld 12"),
            (Words{"한글이", "，。", "Hello", "World", " ", "1", "2"}));
}

TEST(PreTokenizerTest, GroupsDigitsFromTheRight) {
  for (const char* name : {"tiny_aya", "afmoe"}) {
    EXPECT_EQ(words_of(name, "in 1234567"), (Words{"in", " ", "1", "234", "567"})) << name;
    EXPECT_EQ(words_of(name, "12 345"), (Words{"12", " ", "345"})) << name;
  }
  EXPECT_EQ(words_of("tiny_aya", "1234th"), (Words{"123", "4", "th"})) << "part of a word";
  EXPECT_EQ(words_of("afmoe", "x 中文かな"), (Words{"x", " ", "中文かな"}));
}

TEST(PreTokenizerTest, Jais2HalvesBlanks) {
  EXPECT_EQ(words_of("jais-2", "a       b"), (Words{"a", "    ", "  ", " b"}));
  EXPECT_EQ(words_of("jais-2", "a   \n   \n\t\t\t"), (Words{"a", "   \n   \n", "\t\t", "\t"}));
  EXPECT_EQ(words_of("jais-2", "a !!\n\n b"), (Words{"a", " !!\n\n", " b"}));
}

TEST(PreTokenizerTest, FalconSplitsPunctuationFirst) {
  EXPECT_EQ(words_of("falcon", "a, b=12345`x`"),
            (Words{"a", ",", " b", "=", "123", "45", "`", "x", "`"}));
  EXPECT_EQ(words_of("chameleon", "x IMGIMGABZ 12"), (Words{"x", " ", "IMGIMGABZ", " ", "1", "2"}));
  EXPECT_EQ(words_of("spark2_5", "a !\n\n 12"), (Words{"a", " !", "\n", "\n", " ", "1", "2"}));
}

TEST(PreTokenizerTest, Gemma4SplitsAtLineEndsAlone) {
  EXPECT_EQ(words_of("gemma4", "the▁cat, 12\n\n it"), (Words{"the▁cat, 12", "\n\n", " it"}));
}

// Quadratic work would exceed the test's timeout.
TEST(PreTokenizerTest, EveryRuleTakesLinearTime) {
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    const PreTokenizer pre_tokenizer(rules);
    for (const std::string unit : {" ", "\n", "1", "A", "a", "中", "\u0301", " \n", "! ", "a "}) {
      std::string text;
      while (text.size() < 1 << 17) text += unit;
      // The last character ends what the expressions look ahead for.
      text += "1x";
      std::size_t size = 0;
      pre_tokenizer.split(text, [&](std::string_view word) { size += word.size(); });
      EXPECT_EQ(size, text.size()) << rules.name << ", unit '" << unit << "'";
    }
  }
}

TEST(PreTokenizerTest, ClassifiesUnicode) {
  EXPECT_EQ(words_of("gpt-2", "нещо 日本語 ٣٤ ½"), (Words{"нещо", " 日本語", " ٣٤", " ½"}));
  EXPECT_EQ(words_of("gpt-2", "a\u00A0\u3000b"), (Words{"a", "\u00A0", "\u3000", "b"}));
  // A combining mark is not a letter, and U+180E is not white space.
  EXPECT_EQ(words_of("gpt-2", "e\u0301x"), (Words{"e", "\u0301", "x"}));
  EXPECT_EQ(words_of("gpt-2", "a\u180E b"), (Words{"a", "\u180E", " b"}));
}

TEST(PreTokenizerTest, KeepsInvalidUtf8AsWordBoundary) {
  EXPECT_EQ(words_of("gpt-2",
                     "ab\xFF\xC3"
                     "cd"),
            (Words{"ab", "\xFF\xC3", "cd"}));
  EXPECT_EQ(words_of("gpt-2", "a  \xFF"), (Words{"a", "  ", "\xFF"}));
  EXPECT_EQ(words_of("gpt-2", "a\xE2\x82"), (Words{"a", "\xE2\x82"}));
}

TEST(PreTokenizerTest, EmptyTextHasNoWords) {
  for (const PreTokenizerRules& rules : pre_tokenizer_rules()) {
    EXPECT_EQ(words_of(std::string(rules.name), ""), Words{}) << rules.name;
  }
}

TEST(PreTokenizerTest, FindsRulesByAlias) {
  EXPECT_EQ((*find_pre_tokenizer_rules("llama3"))->name, "llama-bpe");
  EXPECT_EQ((*find_pre_tokenizer_rules("phi-2"))->name, "gpt-2");
  EXPECT_EQ((*find_pre_tokenizer_rules("lfm2"))->name, "llama-bpe") << "last of several";
  EXPECT_FALSE(find_pre_tokenizer_rules("llama3 llama-v3"));
  EXPECT_FALSE(find_pre_tokenizer_rules(""));
}

TEST(PreTokenizerTest, EveryNameHasOneRule) {
  std::istringstream names(pre_tokenizer_names());
  std::set<std::string> seen;
  for (std::string name; names >> name;) {
    EXPECT_TRUE(seen.insert(name).second) << name;
    EXPECT_TRUE(find_pre_tokenizer_rules(name)) << name;
  }
}

TEST(NfcTest, Composes) {
  EXPECT_EQ(to_nfc("e\u0301"), "é");
  EXPECT_EQ(to_nfc("A\u030Apfel"), "Åpfel");
  EXPECT_EQ(to_nfc("\u212B"), "\u00C5") << "Angstrom sign";
  EXPECT_EQ(to_nfc("\u1112\u1161\u11AB"), "한");
  EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093C") << "composition exclusion";
  EXPECT_EQ(to_nfc("ﬁ ½ Ａ"), "ﬁ ½ Ａ") << "compatibility characters stay";
  EXPECT_EQ(to_nfc("plain é text"), "plain é text");
  EXPECT_EQ(to_nfc(""), "");
}

TEST(NfcTest, OrdersMarks) {
  EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");
  EXPECT_EQ(to_nfc("a\u0301\u0323"), "ạ\u0301");
  EXPECT_EQ(words_of("qwen2", "a\u0301\u0323"), (Words{"ạ", "\u0301"}));
}

}  // namespace
}  // namespace edgedraft
