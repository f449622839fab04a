// Numbers of a workgroup's lanes brought together: those of eight neighbours in a tree, then the
// eights in order. With SUBGROUPS neighbours exchange them within their subgroup, which is full and
// has eight lanes at least; else they are read from shared memory. The bits are the same.

#ifdef SUBGROUPS
// So that neighbours are in one subgroup, whatever invocations it is made of.
uint lane_index() { return gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID; }

// The sum and the largest of eight neighbours' numbers.
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
// The same for eight numbers of an array from `at` on, `step` apart.
#define TREE_OF_EIGHT(array, at, step)                                                     \
  tree_of_eight(array[at], array[(at) + (step)], array[(at) + 2 * (step)],                 \
                array[(at) + 3 * (step)], array[(at) + 4 * (step)], array[(at) + 5 * (step)], \
                array[(at) + 6 * (step)], array[(at) + 7 * (step)])
