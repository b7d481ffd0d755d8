// `T` is what the kernel is for.
extern "C" __global__ void shifted(T by, bool twice, const T* x, size_t x_len, T* y, size_t y_len)
{
    size_t at = (size_t) blockIdx.x * blockDim.x + threadIdx.x, many = twice ? 2 : 1;
    if (at < y_len) y[at] = at < many ? by : x[at - many];
}
