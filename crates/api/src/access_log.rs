//! The access log: one line for each answered request, with the ids that lead from it to everything else.
//!
//! Lines have the target [`TARGET`], so that the writer of the log may gather them and an operator may filter them. The
//! query is left out: it may hold what people search for.

use std::time::Duration;

use bowline_auth::Caller;

use crate::context::Context;
use crate::problem::Problem;

/// Where log filters and the writer find these lines.
pub const TARGET: &str = "bowline::access";
/// Characters of a path that are shown.
const PATH_MAX: usize = 200;

/// An answered request.
#[derive(Debug)]
pub struct Answered<'a> {
    pub method: &'a str,
    pub route: &'static str,
    pub path: &'a str,
    pub status: u16,
    pub took: Duration,
    pub caller: Option<&'a Caller>,
    pub problem: Option<&'a Problem>,
}

/// Whether anybody reads these lines; what they need is not gathered otherwise.
pub fn is_on() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

/// Writes the line of a request.
pub fn log(context: &Context, answered: &Answered<'_>) {
    let Answered { method, route, path, status, took, caller, problem } = *answered;
    let path = path.get(..PATH_MAX).unwrap_or(path);
    let ms = (took.as_secs_f64() * 1e6).round() / 1e3;
    let actor = caller.map(|caller| tracing::field::display(&caller.actor));
    let tenant = caller.and_then(|caller| caller.tenant).map(tracing::field::display);
    let (code, error) = (problem.map(|p| p.code), problem.map(|p| p.message.as_str()));
    let (request_id, trace_id) = (&*context.request_id, &*context.trace_id);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                target: TARGET,
                {
                    request.id = request_id, trace.id = trace_id, http.method = method, http.route = route,
                    http.path = path, http.status = status, duration_ms = ms, actor = actor, tenant.id = tenant,
                    error.code = code, error = error
                },
                "request"
            )
        };
    }
    if status >= 500 { line!(warn) } else { line!(info) }
}
