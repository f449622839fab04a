// Reductions over a workgroup's lanes: eight neighbours in a tree, then the eights in order. With
// SUBGROUPS, neighbours exchange values within their subgroup, which is full and has at least eight
// lanes; otherwise through shared memory. The bits are the same.

#ifdef SUBGROUPS
// Puts neighbours into one subgroup, for any mapping of invocations.
uint lane_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

// Sum and maximum over eight neighbours.
float sum_of_neighbours(float own) {
  precise float sum = own;
  for (uint d = 1; d < kNeighbours; d *= 2) sum = sum + subgroupShuffleXor(sum, d);
  return sum;
}
float max_of_neighbours(float own) {
  for (uint d = 1; d < kNeighbours; d *= 2) own = max(own, subgroupShuffleXor(own, d));
  return own;
}
#else
uint lane_index() { return gl_LocalInvocationID.x; }
#endif

float tree_of_eight(float a, float b, float c, float d, float e, float f, float g, float h) {
  precise float first = (a + b) + (c + d);
  precise float second = (e + f) + (g + h);
  precise float sum = first + second;
  return sum;
}
// As above for eight elements of an array from `at` on, `step` apart.
#define TREE_OF_EIGHT(array, at, step)                                                        \
  tree_of_eight(array[at], array[(at) + (step)], array[(at) + 2 * (step)],                    \
                array[(at) + 3 * (step)], array[(at) + 4 * (step)], array[(at) + 5 * (step)], \
                array[(at) + 6 * (step)], array[(at) + 7 * (step)])
