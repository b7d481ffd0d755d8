//! The log of calls, kernels, and which GPUs are visible. Here, since unit tests would build the
//! whole library once more.

use fake_cuda::{Call, Code, gpus, ptx};

#[test]
fn a_line_says_all() {
    for (result, gives) in [(None, None), (Some(Code::NOT_READY), Some(u64::MAX))] {
        let arguments = vec![("N".to_owned(), 0), ("hStream".to_owned(), u64::MAX)];
        let call = Call { function: "cuMemsetD8Async", thread: 3, result, arguments, gives };
        assert_eq!(call.to_string().parse(), Ok(call));
    }
    for garbled in ["", "cuInit 0 0", "cuNot 0 0 -", "cuInit 0 - - a", "cuInit 0 4242 -"] {
        assert_eq!(garbled.parse::<Call>(), Err(fake_cuda::Garbled), "{garbled}");
    }
}

const ADD: &str = "
    .visible .entry add(.param .u64 x, .param .u32 n, .param .u32 d)
    {
        .reg .pred %p; // more than it is given
        mov.u32 %i, %ctaid.x;
        mad.lo.u32 %i, %i, %ntid.x, %tid.x;
        ld.param.u32 %n, [n];
        setp.ge.u32 %p, %i, %n;
        @%p bra END;
        mul.wide.u32 %o, %i, 4;
        ld.param.u64 %x, [x];
        add.u64 %x, %x, %o;
        ld.global.u32 %v, [%x];
        ld.param.u32 %d, [d];
        add.u32 %v, %v, %d;
        st.global.u32 [%x], %v;
    END:
        ret;
    }";

#[test]
fn each_thread_does_what_the_text_says() {
    let all = ptx::kernels(ADD).expect("it is known");
    assert_eq!((&*all[0].name, &*all[0].parameters), ("add", &[8, 4, 4][..]));
    let mut x = [1_u32, 2, 3, u32::MAX, 5];
    let address = x.as_mut_ptr().expose_provenance() as u64;
    // SAFETY: there are four elements and one more.
    unsafe { all[0].run((2, 3), &[address, 4, 7]) };
    assert_eq!(x, [8, 9, 10, 6, 5]);
}

#[test]
fn what_is_not_known_is_named() {
    let other = ADD.replace("add.u32 %v, %v, %d", "div.u32 %v, %v, %d");
    let error = ptx::kernels(&other).map(drop).expect_err("no division");
    assert!(error.contains("`div.u32 %v, %v, %d` is not among"), "{error}");
    assert!(ptx::kernels(".entry x(").is_err() && ptx::kernels("").is_ok_and(|all| all.is_empty()));
}

#[test]
fn what_is_visible() {
    assert_eq!(gpus::seen("2,0", 4), [2, 0]);
    assert_eq!(gpus::seen("1, 7,0", 4), [1]);
    assert_eq!(gpus::seen("", 4), [0; 0]);
}
