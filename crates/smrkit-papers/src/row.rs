//! A number of the paper and ours next to it, with a verdict and its reason.

use serde::Serialize;

use smrkit_report::format;

/// One comparison.
#[derive(Clone, Debug)]
pub struct Row {
    /// Quantity that is compared.
    pub item: String,
    /// Value in the paper.
    pub paper: Value,
    /// Value here.
    pub ours: Value,
    /// The unit of both.
    pub unit: &'static str,
    /// The verdict.
    pub verdict: Agreement,
    /// By which measure, and why.
    pub reason: String,
    /// The origin of the number next to ours.
    pub basis: Basis,
}

/// The origin of a number next to ours, and so what agreement with it shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The paper's own number or words.
    Paper,
    /// A number that the paper does not print: worked out here, from its text or by another model.
    Derived,
    /// The paper's own, but what goes in was solved from it or fitted to it: agreement is no evidence.
    Fitted,
}

/// A number, or words.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A number.
    Number(f64),
    /// Words.
    Text(String),
    /// Not given.
    None,
}

/// Verdict on two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Within the stated measure.
    Agree,
    /// Not within it.
    Differs,
    /// No measure would be fair.
    NotComparable,
}

impl Agreement {
    /// As it is written in results.
    pub fn name(self) -> &'static str {
        match self {
            Agreement::Agree => "agree",
            Agreement::Differs => "differs",
            Agreement::NotComparable => "not-comparable",
        }
    }

    fn from_agreement(agrees: bool) -> Agreement {
        if agrees { Agreement::Agree } else { Agreement::Differs }
    }
}

impl Value {
    /// For people: counts in full, other numbers with the digits that count.
    pub fn text(&self) -> String {
        match self {
            Value::Count(value) => format::count(*value),
            Value::Number(value) if !value.is_finite() => format::NONE.into(),
            Value::Number(value) if value.abs() >= 100.0 => {
                let whole = format::count(value.abs().trunc() as u64);
                let rest = format!("{:.2}", value.abs().fract());
                let sign = if *value < 0.0 { "-" } else { "" };
                match rest.as_str() {
                    "0.00" | "1.00" => format!("{sign}{}", format::count(value.abs().round() as u64)),
                    rest => format!("{sign}{whole}{}", rest[1..].trim_end_matches('0')),
                }
            }
            Value::Number(value) => {
                let text = format!("{value:.3}");
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }
            Value::Text(text) => text.clone(),
            Value::None => format::NONE.into(),
        }
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::Count(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::Number(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl Row {
    /// Agrees if `holds`; its reason says by which measure.
    pub fn holds(
        item: impl Into<String>,
        paper: impl Into<Value>,
        ours: impl Into<Value>,
        unit: &'static str,
        holds: bool,
    ) -> Row {
        Row {
            item: item.into(),
            paper: paper.into(),
            ours: ours.into(),
            unit,
            verdict: Agreement::from_agreement(holds),
            reason: String::new(),
            basis: Basis::Paper,
        }
    }

    /// A value with no number of the paper to compare it with; its reason says why.
    pub fn not_comparable(item: impl Into<String>, ours: impl Into<Value>, unit: &'static str) -> Row {
        Row::beside(item, Value::None, ours, unit)
    }

    /// Two values that no measure is fair to.
    pub fn beside(item: impl Into<String>, paper: impl Into<Value>, ours: impl Into<Value>, unit: &'static str) -> Row {
        Row { verdict: Agreement::NotComparable, ..Row::holds(item, paper, ours, unit, false) }
    }

    /// Adds to the reason.
    pub fn because(mut self, reason: impl AsRef<str>) -> Row {
        let reason = reason.as_ref();
        let between = if self.reason.is_empty() || reason.is_empty() { "" } else { "; " };
        self.reason = [&self.reason, between, reason].concat();
        self
    }

    /// Marks an agreement that is built in; the reason says so.
    pub fn by_construction(self) -> Row {
        Row { basis: Basis::Fitted, ..self.because("by construction") }
    }

    /// Marks that the number next to ours is none of the paper's, which the reason then says.
    pub fn derived(self) -> Row {
        Row { basis: Basis::Derived, ..self.because("derived here, not in the paper") }
    }

    /// True unless ours is a number that there is none of: of runs that were not made, or nothing by nothing.
    pub fn has_number(&self) -> bool {
        !matches!(self.ours, Value::Number(ours) if ours.is_nan())
    }

    /// Agrees if both are the same number.
    pub fn exact(item: impl Into<String>, paper: u64, ours: u64, unit: &'static str) -> Row {
        Row::holds(item, paper, ours, unit, paper == ours)
    }

    /// Agrees if `ours`, cut or rounded to the digits that the paper prints, is the paper's number.
    pub fn printed(item: impl Into<String>, paper: f64, decimals: i32, ours: f64, unit: &'static str) -> Row {
        let scale = 10f64.powi(decimals);
        let same = |digits: f64| (digits - paper * scale).abs() < 1e-6;
        let agrees = same((ours * scale).round()) || same((ours * scale).trunc());
        Row::holds(item, paper, ours, unit, agrees)
    }

    /// Agrees within `percent` of the paper's number.
    pub fn near(item: impl Into<String>, paper: impl Into<Value>, ours: f64, unit: &'static str, percent: f64) -> Row {
        let paper = paper.into();
        let expected = match paper {
            Value::Count(value) => value as f64,
            Value::Number(value) => value,
            Value::Text(_) | Value::None => f64::NAN,
        };
        let off = 100.0 * (ours / expected - 1.0);
        let agrees = off.abs() <= percent;
        let decimals = if percent < 0.1 { 3 } else { 1 };
        let measure = match (ours == expected, agrees) {
            (true, _) => "equal".to_string(),
            (_, true) => format!("{off:+.decimals$} %, within {percent} %"),
            (_, false) => format!("{off:+.decimals$} %, more than {percent} %"),
        };
        Row::holds(item, paper, ours, unit, agrees).because(measure)
    }
}

/// The mean of some numbers, and their range in words.
pub struct SeedSpread {
    /// The mean; not a number where there is none.
    pub mean: f64,
    /// Number of values, with the first and the last.
    pub range: String,
}

impl SeedSpread {
    /// Of one number a seed.
    pub fn from_values(values: impl Iterator<Item = f64>) -> SeedSpread {
        let values: Vec<f64> = values.collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let [from, to] = [low, high].map(format::short);
        let range = match values.len() {
            0 => "no run".into(),
            1 => "one seed".into(),
            n if from == to => format!("{n} seeds alike"),
            n => format!("{n} seeds: {from} to {to}"),
        };
        SeedSpread { mean, range }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_the_digits_that_a_paper_prints() {
        let shown = [623.24, 2172.81, 3.486, 0.5, 12_500.0, 199.999, -150.25].map(|v| Value::Number(v).text());
        assert_eq!(shown, ["623.24", "2,172.81", "3.486", "0.5", "12,500", "200", "-150.25"]);
        assert_eq!([f64::NAN, f64::INFINITY].map(|v| Value::Number(v).text()), ["-", "-"]);
    }

    #[test]
    fn verdicts_follow_their_measure() {
        let verdict = |ours| Row::near("", Value::Number(100.0), ours, "", 5.0).verdict;
        assert_eq!([95.1, 104.9, 94.9, f64::NAN].map(verdict), {
            use Agreement::{Agree, Differs};
            [Agree, Agree, Differs, Differs]
        });
        let printed = |ours| Row::printed("", 3.48, 2, ours, "").verdict == Agreement::Agree;
        assert_eq!([3.486, 3.478, 3.474, 3.491].map(printed), [true, true, false, false]);
    }

    #[test]
    fn a_measure_says_how_far_off_a_number_is() {
        let near = |paper: Value, ours, percent| {
            let row = Row::near("item", paper, ours, "s", percent).because("why");
            (row.verdict, row.reason)
        };
        let said = |verdict, reason: &str| (verdict, reason.to_string());
        use Agreement::{Agree, Differs};
        assert_eq!(near(100.0.into(), 100.0, 5.0), said(Agree, "equal; why"));
        assert_eq!(near(64_u64.into(), 80.0, 25.0), said(Agree, "+25.0 %, within 25 %; why"));
        assert_eq!(near(200.0.into(), 180.0, 5.0), said(Differs, "-10.0 %, more than 5 %; why"));
        assert_eq!(near(1000.0.into(), 1000.9, 0.1), said(Agree, "+0.1 %, within 0.1 %; why"));
        assert_eq!(near(1000.0.into(), 1000.5, 0.06), said(Agree, "+0.050 %, within 0.06 %; why"));
        assert_eq!(near("words".into(), 1.0, 5.0), said(Differs, "NaN %, more than 5 %; why"));
        assert_eq!(near(Value::None, 1.0, 5.0).0, Differs);
        assert_eq!(Row::near("", 1.0, 1.0, "", 5.0).reason, "equal");
        let exact = |ours| Row::exact("item", 7, ours, "s").because("why").verdict;
        assert_eq!([6, 7, 8].map(exact), [Differs, Agree, Differs]);
    }

    #[test]
    fn rows_carry_the_origin_of_the_number_beside_them() {
        let row = Row::holds("item", 1.0, 2.0, "s", true).because("why");
        assert_eq!((row.basis, &row.paper, &row.ours, row.unit), (Basis::Paper, &1.0.into(), &2.0.into(), "s"));
        let fitted = row.clone().by_construction();
        assert_eq!((fitted.basis, fitted.reason.as_str()), (Basis::Fitted, "why; by construction"));
        let derived = row.clone().derived();
        assert_eq!((derived.basis, derived.reason.as_str()), (Basis::Derived, "why; derived here, not in the paper"));
        let none = Row::not_comparable("item", f64::NAN, "s").because("why");
        assert_eq!((none.verdict, &none.paper, none.has_number()), (Agreement::NotComparable, &Value::None, false));
        assert!(row.has_number() && Row { ours: "no".into(), ..none }.has_number());
        assert_eq!(
            [Agreement::Agree, Agreement::Differs, Agreement::NotComparable].map(Agreement::name),
            ["agree", "differs", "not-comparable"]
        );
    }

    #[test]
    fn the_spread_of_seeds_is_told_by_its_ends() {
        let of = |values: &[f64]| {
            let spread = SeedSpread::from_values(values.iter().copied());
            (spread.mean, spread.range)
        };
        assert_eq!(of(&[3.0]), (3.0, "one seed".into()));
        assert_eq!(of(&[3.0, 3.0]), (3.0, "2 seeds alike".into()));
        assert_eq!(of(&[5.0, 1.0, 3.0]), (3.0, "3 seeds: 1 to 5".into()));
        let (mean, range) = of(&[]);
        assert!(mean.is_nan() && range == "no run");
    }

    #[test]
    fn values_are_shown_with_the_digits_that_count() {
        let shown = [99.9996, 100.0, -100.25, 1234.004, 0.0004, -3.1].map(|value| Value::Number(value).text());
        assert_eq!(shown, ["100", "100", "-100.25", "1,234", "0", "-3.1"]);
        assert_eq!([Value::Count(1234), "x".into(), Value::None].map(|value| value.text()), ["1,234", "x", "-"]);
    }
}
