//! From an expression's text to its tree. Names are checked here: what compiles can only fail for what the context holds.

use serde_json::Value;

use super::{
    error::{ErrorCode, Fault, Place, shown},
    functions::Function,
    limits::DEPTH_MAX,
    pattern::Patterns,
    references::Reference,
    scope::Scope,
    syntax::{Arithmetic, Call, Choice, Comparison, Key, Kind, Node, Segment, Test},
    token::{Ending, Token, Tokens, offset},
};

/// An expression that was read, and where its text ends.
pub(super) struct Parsed {
    pub node: Node,
    pub end: usize,
}

/// Reads the expression that begins at `start`.
pub(super) fn parse(
    source: &str,
    start: usize,
    ending: Ending,
    scope: Scope,
    references: &mut Vec<Reference>,
    patterns: &mut Patterns,
) -> Result<Parsed, Fault> {
    let mut tokens = Tokens::new(source, start, ending);
    let (token, at) = tokens.next()?;
    let mut parser = Parser { tokens, token, at, previous_end: start, depth: 0, ending, scope, references, patterns };
    if parser.token == Token::End {
        return Err(Fault::new(ErrorCode::Syntax, offset(start), "there is no expression here"));
    }
    let node = parser.expression()?;
    match parser.token {
        Token::End => Ok(Parsed { node, end: parser.tokens.position() }),
        _ => Err(parser.unexpected("an operator or the end of the expression")),
    }
}

struct Parser<'s, 'r> {
    tokens: Tokens<'s>,
    /// The token that is looked at, and where it begins.
    token: Token<'s>,
    at: u32,
    /// Where the token before it ended.
    previous_end: usize,
    depth: usize,
    ending: Ending,
    scope: Scope,
    references: &'r mut Vec<Reference>,
    patterns: &'r mut Patterns,
}

/// How much an operator binds: what comes later binds more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Any,
    All,
    Not,
    Compare,
    Sum,
    Concat,
    Product,
    Operand,
}

/// What can stand between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Any,
    All,
    Is,
    /// The beginning of `not in`.
    Not,
    Compare(Comparison),
    Concat,
    Calculate(Arithmetic),
}

impl Operator {
    fn of(token: &Token<'_>) -> Option<Self> {
        Some(match token {
            Token::Name("or") => Self::Any,
            Token::Name("and") => Self::All,
            Token::Name("is") => Self::Is,
            Token::Name("not") => Self::Not,
            Token::Name("in") => Self::Compare(Comparison::In),
            Token::Symbol("==") => Self::Compare(Comparison::Equal),
            Token::Symbol("!=") => Self::Compare(Comparison::Different),
            Token::Symbol("<") => Self::Compare(Comparison::Less),
            Token::Symbol("<=") => Self::Compare(Comparison::LessOrEqual),
            Token::Symbol(">") => Self::Compare(Comparison::Greater),
            Token::Symbol(">=") => Self::Compare(Comparison::GreaterOrEqual),
            Token::Symbol("~") => Self::Concat,
            Token::Symbol("+") => Self::Calculate(Arithmetic::Add),
            Token::Symbol("-") => Self::Calculate(Arithmetic::Subtract),
            Token::Symbol("*") => Self::Calculate(Arithmetic::Multiply),
            Token::Symbol("/") => Self::Calculate(Arithmetic::Divide),
            Token::Symbol("//") => Self::Calculate(Arithmetic::DivideWhole),
            Token::Symbol("%") => Self::Calculate(Arithmetic::Remainder),
            _ => return None,
        })
    }

    /// How much whatever stands to the right of it must bind.
    fn right(self) -> Level {
        match self.level() {
            Level::Any => Level::All,
            Level::All => Level::Not,
            Level::Not | Level::Compare => Level::Sum,
            Level::Sum => Level::Concat,
            Level::Concat => Level::Product,
            Level::Product | Level::Operand => Level::Operand,
        }
    }

    fn level(self) -> Level {
        match self {
            Self::Any => Level::Any,
            Self::All => Level::All,
            Self::Is | Self::Not | Self::Compare(_) => Level::Compare,
            Self::Calculate(Arithmetic::Add | Arithmetic::Subtract) => Level::Sum,
            Self::Concat => Level::Concat,
            Self::Calculate(_) => Level::Product,
        }
    }
}

const KEYWORDS: &[&str] = &["and", "or", "not", "in", "is", "if", "else", "true", "false", "null", "none"];

/// Words that mean something by themselves and can therefore name nothing.
pub(super) fn is_keyword(name: &str) -> bool {
    KEYWORDS.contains(&name)
}

impl<'s> Parser<'s, '_> {
    fn advance(&mut self) -> Result<Token<'s>, Fault> {
        self.previous_end = self.tokens.position();
        let (next, at) = self.tokens.next()?;
        self.at = at;
        Ok(std::mem::replace(&mut self.token, next))
    }

    fn at_symbol(&self, symbol: &str) -> bool {
        matches!(self.token, Token::Symbol(found) if found == symbol)
    }

    fn at_word(&self, word: &str) -> bool {
        matches!(self.token, Token::Name(found) if found == word)
    }

    fn skip_symbol(&mut self, symbol: &str) -> Result<bool, Fault> {
        let found = self.at_symbol(symbol);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn skip_word(&mut self, word: &str) -> Result<bool, Fault> {
        let found = self.at_word(word);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), Fault> {
        if self.skip_symbol(symbol)? { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let found = match &self.token {
            Token::Name(name) => format!("`{}`", shown(name)),
            Token::Text(_) => "a text".to_owned(),
            Token::Number(_) => "a number".to_owned(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end".to_owned(),
        };
        Fault::new(ErrorCode::Syntax, self.at, format!("expected {expected}, found {found}"))
    }

    /// One level down. Whoever comes back up says so; whoever fails does not come back.
    fn deeper(&mut self) -> Result<(), Fault> {
        if self.depth == DEPTH_MAX {
            let message = format!("an expression is nested at most {DEPTH_MAX} levels deep");
            return Err(Fault::new(ErrorCode::TooDeep, self.at, message));
        }
        self.depth += 1;
        Ok(())
    }

    fn expression(&mut self) -> Result<Node, Fault> {
        self.deeper()?;
        let at = self.at;
        let then = self.operation(Level::Any)?;
        let node = if self.skip_word("if")? {
            let condition = self.operation(Level::Any)?;
            if !self.skip_word("else")? {
                return Err(self.unexpected("`else`"));
            }
            let otherwise = self.expression()?;
            Node { at, kind: Kind::Choose(Box::new(Choice { condition, then, otherwise })) }
        } else {
            then
        };
        self.depth -= 1;
        Ok(node)
    }

    /// Operands with operators between them that bind at least as much as `least`.
    ///
    /// What goes on to the left becomes one chain, whatever parentheses stood around its beginning: `a + b - c` and
    /// `(a + b) - c` are the same.
    fn operation(&mut self, least: Level) -> Result<Node, Fault> {
        let at = self.at;
        let known = self.references.len();
        let mut left = if least <= Level::Not && self.skip_word("not")? {
            self.deeper()?;
            let of = self.operation(Level::Not)?;
            self.depth -= 1;
            Node { at, kind: Kind::Not(Box::new(of)) }
        } else {
            self.piped()?
        };
        while let Some(operator) = Operator::of(&self.token).filter(|operator| operator.level() >= least) {
            self.advance()?;
            left = match operator {
                Operator::Is => self.test(at, left, known)?,
                Operator::Not => {
                    if !self.skip_word("in")? {
                        return Err(self.unexpected("`in`"));
                    }
                    let right = self.operation(Level::Sum)?;
                    combined(Operator::Compare(Comparison::NotIn), at, left, right)
                }
                _ => {
                    let right = self.operation(operator.right())?;
                    combined(operator, at, left, right)
                }
            };
            let compared = matches!(operator, Operator::Is | Operator::Compare(_) | Operator::Not);
            if compared && Operator::of(&self.token).is_some_and(|next| next.level() == Level::Compare) {
                let message = "comparisons cannot be chained; write `a < b and b < c`";
                return Err(Fault::new(ErrorCode::Syntax, self.at, message));
            }
        }
        Ok(left)
    }

    fn test(&mut self, at: u32, of: Node, known: usize) -> Result<Node, Fault> {
        let negated = self.skip_word("not")?;
        let Some(test) = (match self.token {
            Token::Name(name) => Test::of(name),
            _ => None,
        }) else {
            return Err(self.unexpected(Test::NAMES));
        };
        self.advance()?;
        if test == Test::Defined {
            self.mark_optional(&of, known);
        }
        Ok(Node { at, kind: Kind::Is { of: Box::new(of), test, negated } })
    }

    fn piped(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        let known = self.references.len();
        let first = self.unary()?;
        if !self.at_symbol("|") {
            return Ok(first);
        }
        let mut calls = Vec::new();
        while self.skip_symbol("|")? {
            let call_at = self.at;
            let Token::Name(name) = self.token else { return Err(self.unexpected("the name of a function")) };
            let function = self.function(name, call_at)?;
            self.advance()?;
            let arguments = if self.skip_symbol("(")? { self.list(")")? } else { Vec::new() };
            calls.push(self.call(function, call_at, arguments)?);
        }
        if calls.first().is_some_and(|call| call.function == Function::Default) {
            self.mark_optional(&first, known);
        }
        Ok(Node { at, kind: Kind::Pipe { first: Box::new(first), calls } })
    }

    fn function(&self, name: &str, at: u32) -> Result<Function, Fault> {
        Function::of(name).ok_or_else(|| {
            Fault::new(ErrorCode::UnknownFunction, at, format!("there is no function `{}`", shown(name)))
        })
    }

    fn call(&mut self, function: Function, at: u32, arguments: Vec<Node>) -> Result<Call, Fault> {
        // The first argument is what stands before the `|`, or was taken out of the parentheses.
        let (least, most) = function.arguments();
        if !(least..=most).contains(&(arguments.len() + 1)) {
            let name = function.name();
            let message = match (least, most) {
                (least, usize::MAX) => format!("`{name}` takes {least} arguments or more"),
                (least, most) if least == most => format!("`{name}` takes {least} arguments"),
                (least, most) => format!("`{name}` takes {least} to {most} arguments"),
            };
            let note = "; what stands before `|` is the first of them";
            return Err(Fault::new(ErrorCode::WrongArguments, at, message + note));
        }
        let pattern = match (function, arguments.first()) {
            (Function::Matches, Some(Node { kind: Kind::Constant(Value::String(pattern)), at })) => {
                Some(self.patterns.compile(pattern, *at)?)
            }
            (Function::Matches, _) => {
                // A pattern from outside would be a program from outside.
                return Err(Fault::new(ErrorCode::BadPattern, at, "the pattern of `matches` must be a text in quotes"));
            }
            _ => None,
        };
        Ok(Call { function, at, arguments: arguments.into(), pattern })
    }

    fn unary(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        if self.skip_symbol("-")? {
            self.deeper()?;
            let of = self.unary()?;
            self.depth -= 1;
            return Ok(Node { at, kind: Kind::Negative(Box::new(of)) });
        }
        let of = self.primary()?;
        let segments = self.segments()?;
        if segments.is_empty() {
            return Ok(of);
        }
        Ok(Node { at, kind: Kind::Within { of: Box::new(of), segments: segments.into() } })
    }

    fn segments(&mut self) -> Result<Vec<Segment>, Fault> {
        let mut segments = Vec::new();
        loop {
            let key = if self.at_symbol(".") {
                // Read by hand: behind a dot `0.1` is two keys.
                let key = match self.tokens.segment()? {
                    Token::Name(name) => Key::Name(name.into()),
                    Token::Number(index) => Key::Index(index.as_i64().unwrap_or_default()),
                    _ => return Err(self.unexpected("a name")),
                };
                self.advance()?;
                key
            } else if self.skip_symbol("[")? {
                let node = self.expression()?;
                self.expect("]")?;
                match node.kind {
                    Kind::Constant(Value::String(name)) => Key::Name(name.into()),
                    Kind::Constant(Value::Number(ref index)) if index.is_i64() => {
                        Key::Index(index.as_i64().unwrap_or_default())
                    }
                    _ => Key::Computed(node),
                }
            } else {
                return Ok(segments);
            };
            segments.push(Segment { key, end: offset(self.previous_end) });
        }
    }

    fn primary(&mut self) -> Result<Node, Fault> {
        let at = self.at;
        let kind = match self.token {
            Token::Text(_) | Token::Number(_) => match self.advance()? {
                Token::Text(text) => Kind::Constant(Value::String(text)),
                Token::Number(number) => Kind::Constant(Value::Number(number)),
                _ => return Err(self.unexpected("a value")),
            },
            Token::Symbol("(") => {
                self.advance()?;
                let node = self.expression()?;
                self.expect(")")?;
                return Ok(node);
            }
            Token::Symbol("[") => {
                self.advance()?;
                Kind::List(self.list("]")?)
            }
            Token::Symbol("{") => {
                self.advance()?;
                // No object begins with a brace; a condition may have places in it, and they group.
                if self.ending == Ending::Text && self.skip_symbol("{")? {
                    let node = self.expression()?;
                    self.expect("}")?;
                    self.expect("}")?;
                    return Ok(node);
                }
                Kind::Object(self.fields()?)
            }
            Token::Name("true") => self.constant(Value::Bool(true))?,
            Token::Name("false") => self.constant(Value::Bool(false))?,
            Token::Name("null" | "none") => self.constant(Value::Null)?,
            Token::Name(name) if !is_keyword(name) => return self.name(name, at),
            _ => return Err(self.unexpected("a value")),
        };
        Ok(Node { at, kind })
    }

    fn constant(&mut self, value: Value) -> Result<Kind, Fault> {
        self.advance()?;
        Ok(Kind::Constant(value))
    }

    fn list(&mut self, closing: &'static str) -> Result<Vec<Node>, Fault> {
        let mut nodes = Vec::new();
        while !self.at_symbol(closing) {
            nodes.push(self.expression()?);
            if !self.skip_symbol(",")? {
                break;
            }
        }
        self.expect(closing)?;
        Ok(nodes)
    }

    fn fields(&mut self) -> Result<Vec<(String, Node)>, Fault> {
        let mut fields = Vec::new();
        while !self.at_symbol("}") {
            let Token::Text(_) = self.token else { return Err(self.unexpected("a key in quotes")) };
            let Token::Text(key) = self.advance()? else { return Err(self.unexpected("a key in quotes")) };
            self.expect(":")?;
            fields.push((key, self.expression()?));
            if !self.skip_symbol(",")? {
                break;
            }
        }
        self.expect("}")?;
        Ok(fields)
    }

    /// A name is a function if parentheses follow it, and the beginning of a path otherwise.
    fn name(&mut self, name: &'s str, at: u32) -> Result<Node, Fault> {
        self.advance()?;
        if self.at_symbol("(") {
            let function = self.function(name, at)?;
            self.advance()?;
            let known = self.references.len();
            let mut arguments = self.list(")")?;
            if arguments.is_empty() {
                return Err(Fault::new(ErrorCode::WrongArguments, at, format!("`{name}` needs an argument")));
            }
            let first = arguments.remove(0);
            if function == Function::Default {
                self.mark_optional(&first, known);
            }
            let calls = vec![self.call(function, at, arguments)?];
            return Ok(Node { at, kind: Kind::Pipe { first: Box::new(first), calls } });
        }
        let Some(root) = self.scope.find(name) else {
            let message = format!("`{}` is unknown; there are {}", shown(name), self.scope.names());
            return Err(Fault::new(ErrorCode::UnknownName, at, message));
        };
        let root_end = offset(self.previous_end);
        // The reference stands before those of its own computed keys.
        let mine = self.references.len();
        self.references.push(Reference { root, keys: Vec::new(), optional: false, place: Place::at_offset(at) });
        let segments = self.segments()?;
        self.references[mine].keys = segments
            .iter()
            .map_while(|segment| match &segment.key {
                Key::Name(name) => Some(name.to_string()),
                Key::Index(index) => Some(index.to_string()),
                Key::Computed(_) => None,
            })
            .collect();
        Ok(Node { at, kind: Kind::Path { root, root_end, segments: segments.into() } })
    }

    /// The absence of `node` is thought of. `known` is how many references there were before it.
    fn mark_optional(&mut self, node: &Node, known: usize) {
        if let (Kind::Path { .. }, Some(reference)) = (&node.kind, self.references.get_mut(known)) {
            reference.optional = true;
        }
    }
}

/// Two operands with an operator between them. If the left one is a chain of the same kind, it goes on.
fn combined(operator: Operator, at: u32, left: Node, right: Node) -> Node {
    let kind = match (operator, left.kind) {
        (Operator::Any, Kind::Any(mut nodes)) => {
            nodes.push(right);
            Kind::Any(nodes)
        }
        (Operator::All, Kind::All(mut nodes)) => {
            nodes.push(right);
            Kind::All(nodes)
        }
        (Operator::Concat, Kind::Concat(mut nodes)) => {
            nodes.push(right);
            Kind::Concat(nodes)
        }
        (Operator::Calculate(arithmetic), Kind::Calculate { first, mut rest }) => {
            rest.push((arithmetic, right));
            Kind::Calculate { first, rest }
        }
        (operator, kind) => {
            let left = Node { at: left.at, kind };
            match operator {
                Operator::Any => Kind::Any(vec![left, right]),
                Operator::All => Kind::All(vec![left, right]),
                Operator::Concat => Kind::Concat(vec![left, right]),
                Operator::Calculate(arithmetic) => {
                    Kind::Calculate { first: Box::new(left), rest: vec![(arithmetic, right)] }
                }
                Operator::Compare(comparison) => Kind::Compare(comparison, Box::new((left, right))),
                Operator::Is | Operator::Not => unreachable!("neither has a right side that is an operand"),
            }
        }
    };
    Node { at, kind }
}
