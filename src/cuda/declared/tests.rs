//! Compiles sources with the installed NVRTC, if there is one.

use super::{include, nvrtc::Nvrtc, text};
use crate::kernel::Declared;
use crate::{Element, Float, bf16, f16, kernel};

kernel! {
    /// A parameter of every kind.
    fn everything<T: Float>(by: T, is: bool, n: usize, a: i8, b: u64, x: &[T], y: &mut [F8E5M2]);
    // SAFETY: it is compiled and not run.
    unsafe cuda r#"
        size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
        T sum = by + x[x_len - 1];
        if (is && i < n && i < y_len) y[i] = __nv_fp8_e5m2((float) sum + a + b);
    "#;
}

kernel! {
    fn broken(y: &mut [f32]);
    // SAFETY: it is compiled and not run.
    unsafe cuda r#"
        y[0] = nothing;
    "#;
}
const ERROR: u32 = line!() - 3;

kernel! {
    /// The sum of all ranks' parts, by their addresses.
    #[launch(threads = 128, blocks = 4)]
    fn sum_of_peers(dev: &DevComm, first: Barrier, from: &WindowSlice<f32>, to: &mut [f32]);
    // SAFETY: it is compiled and not run.
    unsafe cuda r#"
        ncclCoopCta all;
        ncclLsaBarrierSession<ncclCoopCta> barrier(all, dev, ncclTeamTagLsa(), first + blockIdx.x);
        barrier.sync(all, cuda::memory_order_acquire);
        ncclTeam team = ncclTeamLsa(dev);
        size_t stride = (size_t) gridDim.x * blockDim.x;
        for (size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x; i < to_len; i += stride) {
            float sum = 0;
            for (int rank = 0; rank < team.nRanks; rank++)
                sum += ((const float*) ncclGetLsaPointer(from, from_start * sizeof(float), rank))[i];
            to[i] = sum;
        }
        barrier.sync(all, cuda::memory_order_release);
    "#;
}

/// The compiler; without one the test reports that it was skipped.
fn nvrtc() -> Option<&'static Nvrtc> {
    Nvrtc::load().inspect_err(|tried| println!("SKIPPED: no NVRTC: {tried}")).ok()
}

fn compiled<K: Declared>(nvrtc: &Nvrtc) -> Result<Vec<u8>, String> {
    let kernel = K::KERNEL;
    let source = kernel.cuda.as_ref().expect("a source");
    let text = text::whole(kernel, source);
    let mut options = vec!["--gpu-architecture=sm_90".to_owned(), "--std=c++17".to_owned()];
    let (mut folders, mut headers) = (include::cuda(nvrtc), Vec::new());
    if text::communicates(kernel) {
        folders.extend(include::nccls(None).find(|at| include::version_of(at).is_some()));
        headers = include::stand_ins();
        options.push("--device-as-default-execution-space".to_owned());
    }
    options.extend(folders.iter().map(|at| format!("--include-path={}", at.display())));
    nvrtc.compile((kernel.name, &text), &headers, &options)
}

#[test]
fn each_type_of_element_compiles() {
    fn of<T: Element + Float>(nvrtc: &Nvrtc) {
        let code = compiled::<everything<T>>(nvrtc).expect("it compiles");
        assert!(code.starts_with(b"\x7fELF"), "machine code of {}", T::DTYPE);
    }
    let Some(nvrtc) = nvrtc() else { return };
    of::<f32>(nvrtc);
    of::<f64>(nvrtc);
    if include::cuda(nvrtc).iter().any(|folder| folder.join("cuda_fp16.h").exists()) {
        of::<f16>(nvrtc);
        of::<bf16>(nvrtc);
    } else {
        println!("SKIPPED: no headers of CUDA's for 16-bit floats");
    }
}

#[test]
fn an_error_has_the_line_of_the_file() {
    let Some(nvrtc) = nvrtc() else { return };
    let log = compiled::<broken>(nvrtc).expect_err("nothing of that name");
    let place = format!("src/cuda/declared/tests.rs({ERROR}): error: identifier \"nothing\"");
    assert!(log.contains(&place), "{log}");
}

#[test]
fn the_device_api_compiles() {
    let Some(nvrtc) = nvrtc() else { return };
    if !include::nccls(None).any(|folder| include::version_of(&folder).is_some()) {
        println!("SKIPPED: no headers of NCCL's device API");
        return;
    }
    let code = compiled::<sum_of_peers>(nvrtc).expect("it compiles");
    assert!(code.starts_with(b"\x7fELF"));
}
