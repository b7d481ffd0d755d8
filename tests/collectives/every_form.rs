//! Every collective in every form with every reduction, on freshly filled buffers.

use super::call::{Call, Collective, Count, Form, Op};
use super::case::Step;

pub(crate) fn every_form(count: Count) -> Vec<Step> {
    let mut steps = Vec::new();
    for what in Collective::ALL {
        for form in Form::ALL {
            for op in Op::ALL {
                let number = steps.len() / 2;
                let call = Call {
                    what,
                    op,
                    form,
                    root: number,
                    count,
                    send: number % 3,
                    recv: number % 2,
                    shift: number % 5,
                    side: (number % 7) as u8,
                };
                if call.form() == form && (what.reduces() || op == Op::Sum) {
                    steps.extend([Step::Call(call), Step::Refill]);
                }
            }
        }
    }
    steps
}
