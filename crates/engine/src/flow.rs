//! Which step of the lane the rows of each input, and of each step, go to next.
//!
//! Owns the graph of a lane's steps: an edge leads from an input, or from a step, to one of the inputs of a later step, or out of the last one to the
//! tables. Does not own what a step does, nor the order in which steps are advanced, which is that of their places: every edge leads forward.
//!
//! ```text
//! orders   ─▶ 0 dedup ─┐
//!                      ├▶ 1 join ─▶ 2 window ─▶ the tables
//! payments ────────────┘
//! ```
//! Most lanes are a line, in which the rows of all inputs enter the first step: [`Flow::default`].

/// Where rows go: an input of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// The step, by its place in the lane; the number of steps for the way out.
    pub step: usize,
    /// Which of the step's inputs.
    pub input: usize,
}

/// The edges of a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// For each input of the pipeline, by place, where its rows enter; the first step for inputs beyond the end.
    pub entries: Vec<Port>,
    /// For each step, by place, where the rows go that it lets out; the step behind it for steps beyond the end.
    pub next: Vec<Port>,
}

impl Flow {
    /// Where the rows of the input at this place enter.
    pub fn entry(&self, input: usize) -> Port {
        self.entries.get(input).copied().unwrap_or(Port { step: 0, input: 0 })
    }

    /// Where the rows that a step lets out go.
    pub fn next(&self, step: usize) -> Port {
        self.next.get(step).copied().unwrap_or(Port { step: step + 1, input: 0 })
    }

    /// The steps that rows from the input at this place go through on their way to the tables, in order, of a lane of `steps` steps.
    pub fn path(&self, input: usize, steps: usize) -> impl Iterator<Item = Port> + use<'_> {
        let first = Some(self.entry(input));
        let on_the_way = move |port: &Port| port.step < steps;
        std::iter::successors(first, |port| Some(self.next(port.step))).take_while(on_the_way)
    }

    /// Whether every edge leads forward to an input that its step has; `inputs` says how many each step has.
    pub fn fits(&self, inputs: &[usize]) -> bool {
        let is_there = |port: &Port| match inputs.get(port.step) {
            Some(inputs) => port.input < *inputs,
            None => port.step == inputs.len() && port.input == 0,
        };
        let leads_forward = |step: usize| self.next(step).step > step && is_there(&self.next(step));
        self.next.len() <= inputs.len()
            && self.entries.iter().all(is_there)
            && (0..inputs.len()).all(leads_forward)
    }

    /// What watermark each step is advanced to: the least of what comes to it. `behind` says what a step leaves of the one it is advanced to; it is
    /// asked once for each step, in order.
    pub fn watermarks(
        &self,
        watermark_ms: i64,
        steps: usize,
        mut behind: impl FnMut(usize, i64) -> i64,
    ) -> Vec<i64> {
        // What no step is in front of is reached by an input.
        let mut own = vec![watermark_ms; steps];
        for step in 0..steps {
            let left_ms = behind(step, own[step]);
            if let Some(next) = own.get_mut(self.next(step).step) {
                *next = (*next).min(left_ms);
            }
        }
        own
    }
}

#[cfg(test)]
mod tests;
