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
        body.push_back({.kind = Kind::output, .line = token.line, .expression = in_.parse_tuple()});
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
    } else if (name.text == "filter") {
      Statement statement{.kind = Kind::filter, .line = name.line};
      statement.expression = in_.parse_filters_of_captured();
      parse_inner(statement, "endfilter");
      body.push_back(std::move(statement));
    } else if (name.text == "macro") {
      body.push_back(parse_macro(name.line));
    } else if (name.text == "call") {
      body.push_back(parse_call(name.line));
    } else if (name.text == "with") {
      body.push_back(parse_with(name.line));
    } else if (name.text == "generation") {
      // Marks the assistant's part for training; has no effect on the text.
      Statement statement{.kind = Kind::group, .line = name.line};
      parse_inner(statement, "endgeneration");
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
      ExpressionPtr condition = kind == "else" ? nullptr : in_.parse_tuple();
      end_block();
      Body body = kind == "else" ? parse_body({"endif"}) : parse_body({"elif", "else", "endif"});
      kind = std::exchange(closer_, {});
      statement.branches.push_back({std::move(condition), std::move(body)});
    }
    end_block();
    return statement;
  }

  // The rest of a block whose body no {% break %} leaves.
  void parse_inner(Statement& statement, std::string_view closer) {
    end_block();
    const std::size_t loops = std::exchange(loops_, 0);
    statement.branches.push_back({nullptr, parse_body({closer})});
    loops_ = loops;
    if (closer == "endmacro" && in_.at(Token::Kind::name)) in_.take();  // its name
    end_block();
  }

  Statement parse_for(int line) {
    Statement statement{.kind = Kind::loop, .line = line};
    statement.target = parse_targets(1);
    if (!in_.take_if("in")) in_.fail("a loop without 'in'");
    statement.expression = in_.parse_tuple(ExpressionParser::Choice::left);
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

  // One target, or several between commas.
  Target parse_targets(std::size_t depth) {
    if (depth > kTemplateDepthMax) in_.fail("nesting targets that deeply");
    Target all;
    bool is_tuple = false;
    do {
      if (is_tuple && !in_.at("(") && (!in_.at(Token::Kind::name) || in_.at("in"))) break;
      if (in_.take_if("(")) {
        all.parts.push_back(parse_targets(depth + 1));
        if (!in_.take_if(")")) in_.fail("'" + in_.peek().text + "' in a target");
      } else {
        if (!in_.at(Token::Kind::name)) in_.fail("'" + in_.peek().text + "' as a target");
        all.parts.push_back({.name = in_.take().text});
      }
      is_tuple = is_tuple || in_.at(",");
    } while (!in_.error() && in_.take_if(","));
    if (is_tuple || in_.error()) return all;
    Target only = std::move(all.parts[0]);
    return only;
  }

  Statement parse_set(int line) {
    Statement statement{.kind = Kind::assign, .line = line};
    statement.target = parse_targets(1);
    if (!statement.target.name.empty() && in_.take_if(".")) {
      if (!in_.at(Token::Kind::name)) in_.fail("this form of {% set %}");
      statement.target.member = in_.take().text;
    }
    if (in_.take_if("=")) {
      statement.expression = in_.parse_tuple();
      end_block();
      return statement;
    }
    if (in_.at("|")) statement.expression = in_.parse_filters_of_captured();
    parse_inner(statement, "endset");
    return statement;
  }

  void parse_parameters(Statement& statement) {
    if (!in_.take_if("(")) in_.fail("'" + in_.peek().text + "' instead of '('");
    while (!in_.error() && !in_.take_if(")")) {
      if (!in_.at(Token::Kind::name)) in_.fail("'" + in_.peek().text + "' as a parameter");
      Parameter parameter{.name = in_.take().text, .fallback = nullptr};
      if (in_.take_if("=")) {
        parameter.fallback = in_.parse();
      } else if (!statement.parameters.empty() && statement.parameters.back().fallback) {
        in_.fail("a parameter without default after one with a default");
      }
      statement.parameters.push_back(std::move(parameter));
      if (!in_.take_if(",") && !in_.at(")")) in_.fail("'" + in_.peek().text + "' here");
    }
  }

  // The body of a macro or {% call %}, and which further arguments it reads.
  void parse_callable(Statement& statement, std::string_view closer) {
    const MoreArguments outer = std::exchange(in_.more_arguments(), {});
    parse_inner(statement, closer);
    MoreArguments& read = in_.more_arguments();
    statement.reads_caller = read.caller;
    statement.reads_more_positional = read.positional;
    statement.reads_more_named = read.named;
    read = {.caller = outer.caller || read.caller,
            .positional = outer.positional || read.positional,
            .named = outer.named || read.named};
  }

  Statement parse_macro(int line) {
    Statement statement{.kind = Kind::macro, .line = line};
    if (!in_.at(Token::Kind::name)) in_.fail("a macro without a name");
    statement.text = in_.take().text;
    parse_parameters(statement);
    parse_callable(statement, "endmacro");
    return statement;
  }

  Statement parse_call(int line) {
    Statement statement{.kind = Kind::call, .line = line, .text = "caller"};
    if (in_.at("(")) parse_parameters(statement);
    statement.expression = in_.parse();
    const ExpressionPtr& call = statement.expression;
    if (call && call->kind != Expression::Kind::call) in_.fail("{% call %} without a call");
    parse_callable(statement, "endcall");
    return statement;
  }

  Statement parse_with(int line) {
    Statement statement{.kind = Kind::group, .line = line};
    while (!in_.error() && !in_.at(Token::Kind::block_end)) {
      if (!in_.at(Token::Kind::name)) in_.fail("'" + in_.peek().text + "' here");
      std::string name = in_.take().text;
      if (!in_.take_if("=")) in_.fail("a variable without a value");
      statement.parameters.push_back({std::move(name), in_.parse()});
      if (!in_.take_if(",") && !in_.at(Token::Kind::block_end)) in_.fail("this form of {% with %}");
    }
    parse_inner(statement, "endwith");
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
