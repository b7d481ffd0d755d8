//! Kernels that are generated as PTX: each of the first `count` elements is computed by one thread.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::hash::Hash;
use std::ptr;

use cudarc::driver::sys;

use super::module::{self, Handle};
use super::{CudaStream, Gpu, driver};
use crate::Result;
use crate::lock::Mutex;

/// A GPU's kernels by what they do; never unloaded.
pub(super) struct Generated<K>(Mutex<HashMap<K, Handle>>);

/// Threads per block.
const WIDTH: u32 = 256;

/// Blocks of the grid: enough to fill any GPU.
const BLOCKS: usize = 4096;

/// The most parameters of a kernel: the target, the count and the sources of a plan's reduction.
const PARAMS: usize = 2 + typed_nccl_plan::ir::MOST_REDUCED;

impl<K> Default for Generated<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Generated<K> {
    /// The kernel of this key, which `text` makes the first time. `doing` is for an error.
    pub(super) fn kernel(
        &self,
        gpu: &Gpu,
        key: K,
        text: impl FnOnce(&K) -> String,
        doing: &'static str,
    ) -> Result<Handle> {
        let mut kernels = self.0.lock();
        if let Some(kernel) = kernels.get(&key) {
            return Ok(*kernel);
        }
        // The text contains no zero byte.
        let text = CString::new(text(&key)).unwrap_or_default();
        let kernel = module::load(gpu, &text, [c"elements"], doing)?[0];
        kernels.insert(key, kernel);
        Ok(kernel)
    }
}

/// Enqueues a kernel over `count` elements.
///
/// # Safety
/// `params` are the kernel's parameters, at most [`PARAMS`], and it may read and write `count`
/// elements at those that are addresses; other uses are ordered before and after.
pub(super) unsafe fn launch(
    stream: &CudaStream,
    Handle(kernel): Handle,
    count: usize,
    params: impl IntoIterator<Item = u64>,
    doing: &'static str,
) -> Result<()> {
    let gpu = stream.gpu();
    gpu.bind()?;
    if count == 0 {
        return Ok(());
    }
    let (mut values, mut arguments) = ([0_u64; PARAMS], [ptr::null_mut::<c_void>(); PARAMS]);
    for ((value, argument), param) in values.iter_mut().zip(&mut arguments).zip(params) {
        *value = param;
        *argument = ptr::from_mut(value).cast();
    }
    let blocks = count.div_ceil(WIDTH as usize).min(BLOCKS) as u32;
    let (arguments, extra) = (arguments.as_mut_ptr(), ptr::null_mut());
    // SAFETY: these are the kernel's parameters, which outlive the call; the caller promised what
    // it reads and writes.
    let launched = unsafe {
        sys::cuLaunchKernel(kernel, blocks, 1, 1, WIDTH, 1, 1, 0, stream.raw(), arguments, extra)
    };
    launched.result().map_err(|error| driver::failed(doing, gpu.ordinal(), error))
}

/// The PTX of a kernel, for every GPU since 2014. `body` computes element `%i`; each of `params`,
/// among which is `count`, is in the register of its name.
pub(super) fn text(params: &[String], body: &str) -> String {
    format!("{HEADER}{}", entry("elements", params, "", body))
}

/// The first lines of a text.
pub(super) const HEADER: &str = "
.version 7.0
.target sm_50
.address_size 64
";

/// One kernel of a text, with further registers of 64 bits.
pub(super) fn entry(name: &str, params: &[String], more: &str, body: &str) -> String {
    let join =
        |each: &dyn Fn(&String) -> String, by| params.iter().map(each).collect::<Vec<_>>().join(by);
    let declared = join(&|name| format!(".param .u64 {name}"), ", ");
    let registers = join(&|name| format!("%{name}"), ", ");
    let loads = join(&|name| format!("    ld.param.u64 %{name}, [{name}];"), "\n");
    format!(
        "
.visible .entry {name}({declared})
{{
    .reg .pred %p, %q;
    .reg .b16 %h;
    .reg .b32 %block, %width, %blocks, %thread, %f, %u, %a, %b, %c, %s, %sum;
    .reg .b64 {registers}, %i, %step, %x, %y, %w, %v, %d, %e, %total{more};
{loads}
    mov.u32 %block, %ctaid.x;
    mov.u32 %blocks, %nctaid.x;
    mov.u32 %width, %ntid.x;
    mov.u32 %thread, %tid.x;
    mul.wide.u32 %step, %blocks, %width;
    mul.wide.u32 %i, %block, %width;
    cvt.u64.u32 %x, %thread;
    add.u64 %i, %i, %x;
NEXT:
    setp.ge.u64 %p, %i, %count;
    @%p bra END;
{body}    add.u64 %i, %i, %step;
    bra NEXT;
END:
    ret;
}}
"
    )
}
