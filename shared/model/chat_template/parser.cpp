#include "shared/model/chat_template/parser.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/expression_parser.h"

namespace edgedraft::chat {
namespace {

// Recursive descent over the blocks. After a failed expression every loop ends.
class Parser {
  using Kind = Statement::Kind;

 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  Result<Body> run() {
    Body body = parse_body({});
    if (!in_.error() && !in_.at(Token::Kind::end)) in_.fail("an end tag without its block");
    if (in_.error()) return *in_.error();
    return body;
  }

 private:
  // Parses statements up to a block that begins with one of `closers`. Consumes its tag and name
  // and stores the name in closer_.
  Body parse_body(std::initializer_list<std::string_view> closers) {
    Body body;
    if (++nesting_ > kTemplateDepthMax) in_.fail("nesting blocks that deeply");
    closer_.clear();
    while (!in_.error() && !in_.at(Token::Kind::end)) {
      const Token token = in_.take();
      if (token.kind == Token::Kind::text) {
        body.push_back({.kind = Kind::text, .line = token.line, .text = token.text});
      } else if (token.kind == Token::Kind::output_begin) {
        body.push_back({.kind = Kind::output, .line = token.line, .expression = in_.parse()});
        if (!in_.at(Token::Kind::output_end)) in_.fail("'" + in_.peek().text + "' here");
        in_.take();
      } else if (token.kind == Token::Kind::block_begin) {
        const Token name = in_.take();
        if (std::find(closers.begin(), closers.end(), name.text) != closers.end()) {
          closer_ = name.text;
          break;
        }
        parse_block(name, body);
      } else {
        in_.fail("'" + token.text + "' here");
      }
    }
    --nesting_;
    if (closers.size() > 0 && closer_.empty()) in_.fail("a block without its end tag");
    return body;
  }

  void parse_block(const Token& name, Body& body) {
    if (name.text == "if") {
      body.push_back(parse_if(name.line));
    } else if (name.text == "for") {
      body.push_back(parse_for(name.line));
    } else if (name.text == "set") {
      body.push_back(parse_set(name.line));
    } else if (name.text == "generation") {
      // Marks the assistant's part for training; has no effect on the text.
      end_block();
      Statement statement{.kind = Kind::group, .line = name.line};
      statement.branches.push_back({nullptr, parse_body({"endgeneration"})});
      end_block();
      body.push_back(std::move(statement));
    } else if ((name.text == "break" || name.text == "continue") && loops_ > 0) {
      end_block();
      body.push_back(
          {.kind = name.text == "break" ? Kind::leave_loop : Kind::next_turn, .line = name.line});
    } else {
      in_.fail("{% " + name.text + " %}");
    }
  }

  void end_block() {
    if (!in_.at(Token::Kind::block_end)) in_.fail("'" + in_.peek().text + "' here");
    in_.take();
  }

  Statement parse_if(int line) {
    Statement statement{.kind = Kind::condition, .line = line};
    std::string kind = "if";
    while (kind != "endif" && !in_.error()) {
      ExpressionPtr condition = kind == "else" ? nullptr : in_.parse();
      end_block();
      Body body = kind == "else" ? parse_body({"endif"}) : parse_body({"elif", "else", "endif"});
      kind = std::exchange(closer_, {});
      statement.branches.push_back({std::move(condition), std::move(body)});
    }
    end_block();
    return statement;
  }

  Statement parse_for(int line) {
    Statement statement{.kind = Kind::loop, .line = line};
    do {
      if (!in_.at(Token::Kind::name)) in_.fail("this form of loop");
      statement.targets.push_back(in_.take().text);
    } while (in_.take_if(","));
    if (!in_.take_if("in")) in_.fail("a loop without 'in'");
    statement.expression = in_.parse_without_choice();
    ExpressionPtr condition = in_.take_if("if") ? in_.parse() : nullptr;
    end_block();
    ++loops_;
    statement.branches.push_back({std::move(condition), parse_body({"else", "endfor"})});
    --loops_;
    const bool has_else = closer_ == "else";
    end_block();
    if (has_else) {
      statement.branches.push_back({nullptr, parse_body({"endfor"})});
      end_block();
    }
    return statement;
  }

  Statement parse_set(int line) {
    Statement statement{.kind = Kind::assign, .line = line};
    do {
      if (!in_.at(Token::Kind::name)) in_.fail("this form of {% set %}");
      statement.targets.push_back(in_.take().text);
    } while (statement.targets.size() < 2 && in_.take_if("."));
    if (in_.take_if("=")) {
      statement.expression = in_.parse();
      end_block();
      return statement;
    }
    if (!in_.at(Token::Kind::block_end)) in_.fail("this form of {% set %}");
    in_.take();
    const std::size_t loops = std::exchange(loops_, 0);  // no {% break %} out of a {% set %}
    statement.branches.push_back({nullptr, parse_body({"endset"})});
    loops_ = loops;
    end_block();
    return statement;
  }

  ExpressionParser in_;
  std::size_t nesting_ = 0;
  std::size_t loops_ = 0;
  std::string closer_;
};

}  // namespace

Result<Body> parse_template(std::vector<Token> tokens) {
  return Parser(std::move(tokens)).run();
}

}  // namespace edgedraft::chat
