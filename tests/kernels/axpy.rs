//! A kernel for both devices.
//!
//! The double of NVRTC compiles no C++; its output is the PTX in the comment.

use typed_nccl::kernel;

kernel! {
    /// `y += a * x`, element by element.
    #[launch(threads = 32)]
    pub(crate) fn axpy(a: f32, x: &[f32], y: &mut [f32]);
    // SAFETY: it stays within `y`, and the tests give it an `x` as long.
    unsafe cuda r#"
        size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
        if (i < y_len) y[i] += a * x[i];
        /* ptx
        .visible .entry axpy(.param .f32 a, .param .u64 x, .param .u64 x_len, .param .u64 y, .param .u64 y_len)
        {
            mov.u32 %i, %ctaid.x;
            mad.lo.u32 %i, %i, %ntid.x, %tid.x;
            cvt.u64.u32 %i, %i;
            ld.param.u64 %n, [y_len];
            setp.ge.u64 %p, %i, %n;
            @%p bra END;
            mul.lo.u64 %o, %i, 4;
            ld.param.u64 %x, [x];
            add.u64 %x, %x, %o;
            ld.global.u32 %v, [%x];
            ld.param.u32 %a, [a];
            mul.rn.f32 %v, %v, %a;
            ld.param.u64 %y, [y];
            add.u64 %y, %y, %o;
            ld.global.u32 %w, [%y];
            add.rn.f32 %w, %w, %v;
            st.global.u32 [%y], %w;
        END:
            ret;
        }
        */
    "#;
    host {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}
