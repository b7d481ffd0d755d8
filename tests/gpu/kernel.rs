//! A kernel of the tests, launched as CUDA programs launch theirs: on a step's stream and memory.

use std::cell::OnceCell;
use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::driver::sys;
use typed_nccl::{Cuda, Device, DeviceView, DeviceViewMut, RawStream, Result};

/// y\[i\] = a p\[i\] + b q\[i\] + c r\[i\] + d, of u32, wrapping.
const CODE: &CStr = c"
.version 7.0
.target sm_50
.address_size 64

.visible .entry combine(
    .param .u64 y, .param .u32 n,
    .param .u64 p, .param .u64 q, .param .u64 r,
    .param .u32 a, .param .u32 b, .param .u32 c, .param .u32 d
)
{
    .reg .pred %done;
    .reg .b32 %n, %at, %block, %width, %x, %by, %sum;
    .reg .b64 %offset, %from;
    ld.param.u32 %n, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %at, %tid.x;
    mad.lo.u32 %at, %block, %width, %at;
    setp.ge.u32 %done, %at, %n;
    @%done bra END;
    mul.wide.u32 %offset, %at, 4;
    ld.param.u32 %sum, [d];
    ld.param.u64 %from, [p];
    ld.param.u32 %by, [a];
    add.s64 %from, %from, %offset;
    ld.u32 %x, [%from];
    mad.lo.u32 %sum, %x, %by, %sum;
    ld.param.u64 %from, [q];
    ld.param.u32 %by, [b];
    add.s64 %from, %from, %offset;
    ld.u32 %x, [%from];
    mad.lo.u32 %sum, %x, %by, %sum;
    ld.param.u64 %from, [r];
    ld.param.u32 %by, [c];
    add.s64 %from, %from, %offset;
    ld.u32 %x, [%from];
    mad.lo.u32 %sum, %x, %by, %sum;
    ld.param.u64 %from, [y];
    add.s64 %from, %from, %offset;
    st.u32 [%from], %sum;
END:
    ret;
}
";

thread_local! {
    /// The kernel in the context of the thread's rank, which has one device.
    static KERNEL: OnceCell<sys::CUfunction> = const { OnceCell::new() };
}

fn done(result: sys::CUresult) {
    assert_eq!(result, sys::CUresult::CUDA_SUCCESS);
}

fn load() -> sys::CUfunction {
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the image is a PTX text that ends in a zero; a launched closure's device is current.
    done(unsafe { sys::cuModuleLoadData(&raw mut module, CODE.as_ptr().cast()) });
    // SAFETY: the module is loaded, and never unloaded; the name ends in a zero.
    done(unsafe { sys::cuModuleGetFunction(&raw mut function, module, c"combine".as_ptr()) });
    function
}

/// Loads it for the thread's rank. CUDA may wait for all work of the GPU, so this comes before any
/// work that waits for another rank on the same GPU.
pub(crate) fn ready(device: &impl Device<Backend = <Cuda as Device>::Backend>) -> Result<()> {
    let loaded = |kernel: &OnceCell<_>| {
        kernel.get_or_init(load);
    };
    device.stream()?.launch((), move |(), _| KERNEL.with(loaded))
}

/// A summand: memory of at least `y`'s length, or `y` itself, and its factor.
pub(crate) type Term<'a, 'v> = (Option<&'a DeviceView<'v, u32>>, u32);

/// Makes `y` the sum of the terms and `d`.
pub(crate) fn combine(
    y: &mut DeviceViewMut<'_, u32>,
    terms: [Term<'_, '_>; 3],
    mut d: u32,
    stream: RawStream<'_>,
) {
    let mut n = u32::try_from(y.len()).expect("tests are small");
    if n == 0 {
        return;
    }
    let mut to = y.as_mut_ptr();
    let mut from = terms.map(|(view, _)| match view {
        Some(view) => {
            assert!(view.len() >= y.len(), "{} elements of {}", view.len(), y.len());
            view.as_ptr()
        }
        None => to.cast_const(),
    });
    let mut by = terms.map(|(_, by)| by);
    let [p, q, r] = &mut from;
    let [a, b, c] = &mut by;
    let mut arguments: [*mut c_void; 9] = [
        (&raw mut to).cast(),
        (&raw mut n).cast(),
        (&raw mut *p).cast(),
        (&raw mut *q).cast(),
        (&raw mut *r).cast(),
        (&raw mut *a).cast(),
        (&raw mut *b).cast(),
        (&raw mut *c).cast(),
        (&raw mut d).cast(),
    ];
    let function = KERNEL.with(|kernel| *kernel.get_or_init(load));
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    let (blocks, stream) = (n.div_ceil(256), stream.as_ptr().cast());
    // SAFETY: the kernel's nine arguments, of its types, which outlive the call. Only the stream
    // uses the views at this point, and they have at least `n` elements each.
    done(unsafe {
        sys::cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, extra)
    });
}
