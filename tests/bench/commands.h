#pragma once

namespace edgedraft {
class Program;
}

namespace edgedraft::bench {

void add_acceptance(Program& program);
void add_device(Program& program);
void add_drafters(Program& program);
void add_engine(Program& program);
void add_model(Program& program);
void add_overlap(Program& program);
void add_protocol(Program& program);
void add_server(Program& program);

}  // namespace edgedraft::bench
