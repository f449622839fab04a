#pragma once

#include "shared/runtime/backend.h"

namespace edgedraft {

// First call of every backend operation: aborts if shapes break the contract in backend.h.
void check_op(const EmbedOp& op);
void check_op(const RmsNormOp& op);
void check_op(const MatmulOp& op);
void check_op(const RopeOp& op);
void check_op(const StoreOp& op);
void check_op(const RopeStoreOp& op);
void check_op(const AttentionOp& op);
void check_op(const GroupAttentionOp& op);
void check_op(const GateOp& op);
void check_op(const CompactOp& op);
void check_op(const GatherLayersOp& op);
void check_op(const GroupMeanOp& op);
void check_op(const TopKOp& op);
void check_op(const ArgmaxOp& op);
void check_op(const ScaleOp& op);
void check_op(const SoftCapOp& op);
void check_op(const ConvolutionOp& op);
void check_op(const DeltaRuleOp& op);
void check_op(const RouteOp& op);
void check_op(const ExpertMatmulOp& op);
void check_op(const MixOp& op);

}  // namespace edgedraft
