#!/usr/bin/env python3
"""Translates the PTX of the kernels into C++ that runs on the fibers of cuda_on_host.h.

  ptx_on_host.py SHARDS PREFIX FILE.ptx ...

Writes PREFIX0.cpp, PREFIX1.cpp, ..., of about the same size. Each kernel becomes a function and a row of a table
(ptx_on_host.h). The last file has kernels with planted faults, which tests/cuda/ptx_faults.sh expects to be found.
An unknown instruction is an error: add a line for it to `Body.statement` or `Body.value`.
"""
import re
import sys

BYTES = {'b8': 1, 'u8': 1, 's8': 1, 'b16': 2, 'u16': 2, 's16': 2, 'b32': 4, 'u32': 4, 's32': 4, 'f32': 4,
         'b64': 8, 'u64': 8, 's64': 8, 'f64': 8}
SPECIAL = {'%' + ptx + '.' + d: c + '.' + d for d in 'xyz' for ptx, c in (
    ('tid', 'threadIdx'), ('ctaid', 'blockIdx'), ('ntid', 'blockDim'), ('nctaid', 'gridDim'))}
SPECIAL['%laneid'] = 'lane()'
COMPARE = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}
# of floats: false, and with u true, where one is a NaN
FLOATS = {'ne': '{0} < {1} || {0} > {1}', 'equ': '!({0} < {1} || {0} > {1})', 'neu': '!({0} == {1})', 'ltu': '!({0} >= {1})',
          'leu': '!({0} > {1})', 'gtu': '!({0} <= {1})', 'geu': '!({0} < {1})', 'num': '{0} == {0} && {1} == {1}',
          'nan': '{0} != {0} || {1} != {1}', **{c: '{0} ' + COMPARE[c] + ' {1}' for c in ('eq', 'lt', 'le', 'gt', 'ge')}}
ARITHMETIC = {'add': '+', 'sub': '-', 'mul': '*', 'and': '&', 'or': '|', 'xor': '^'}
LOGIC = {'and': '&&', 'or': '||', 'xor': '!='}
ROUND = {'rni': 'rint', 'rzi': 'trunc', 'rmi': 'floor', 'rpi': 'ceil'}
# kind: (a kernel that has one, what becomes of the first in it)
FAULTS = {
    'mma': (r'core_product_kernel', r'(mma\.\S+\s+\{[^}]*\},\s*\{[^,]*),\s*(%\w+),\s*(%\w+)', r'\1, \3, \2'),
    'barrier': (r'transpose_kernel', r'bar\.sync\s+0;', ''),
    'vector': (r'product_kernel', r'(ld\.shared\.v4\.\S+\s+\{[^}]*\}, \[%r\d+)(\+\d+)?\]', r'\1+4]'),
}


class Unknown(Exception):
    pass


def c_type(t):
    return {'f32': 'float', 'f64': 'double', 'pred': 'bool'}.get(t) or ('int' if t[0] == 's' else 'uint') + t[1:] + '_t'


def unsigned(t):
    return 'u' + str(8 * BYTES[t])


def name_of(text):
    return re.sub(r'\W', '_', text)


def split(text):
    """At the commas outside brackets."""
    parts = re.findall(r'(?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{(\[])+', text)
    return [p.strip() for p in parts if p.strip()]


def members(text):
    return [x.strip() for x in text.strip('{}').split(',')]


class Function:
    def __init__(self, match, text):
        self.kind, self.name, self.parameters = match.group('kind', 'name', 'parameters')
        depth, at = 1, match.end()
        while depth:
            depth += {'{': 1, '}': -1}.get(text[at], 0)
            at += 1
        self.body = text[match.end():at - 1]


def read(path):
    """The shared arrays and the functions of a file of PTX."""
    with open(path) as file:
        text = re.sub(r'//.*', '', file.read())
    head = re.compile(r'^(?:\.visible |\.weak )?\.(?P<kind>entry|func)\s*(?:\([^)]*\)\s*)?(?P<name>[\w$]+)\s*'
                      r'\((?P<parameters>[^)]*)\)(?P<rest>[^{;]*)\{', re.M)
    functions = [Function(m, text) for m in head.finditer(text)]
    shared = [m.group(0)[:-1] for m in re.finditer(r'^\.shared [^;]*;', text, re.M)]
    return shared, functions


class Body:
    """One function in C++."""

    def __init__(self, function, shared):
        self.function, self.symbols, self.registers, self.code = function, {}, [], []
        self.shared_bytes = self.parameter_bytes = self.depth = 0
        self.blocks = {}  # parameters of calls
        self.parameters = []
        for declared in shared:
            if declared.split('[')[0].split()[-1] in function.body:
                self.declare_shared(declared)
        for declared in split(function.parameters):
            size, align, name = self.variable(declared)
            self.parameter_bytes = -(-self.parameter_bytes // align) * align
            self.parameters.append((name, self.parameter_bytes, size))
            self.symbols[name] = '(uint64_t)(P + %d)' % self.parameter_bytes
            self.parameter_bytes += size

    @staticmethod
    def variable(declared):
        m = re.match(r'\.\w+\s+(?:\.align (\d+) )?\.(\w+)\s+([\w$]+)(?:\[(\d+)\])?$', declared)
        if not m:
            raise Unknown(declared)
        size = BYTES[m.group(2)]
        return size * int(m.group(4) or 1), int(m.group(1) or size), m.group(3)

    def declare_shared(self, declared):
        size, align, name = self.variable(declared)
        self.shared_bytes = -(-self.shared_bytes // align) * align
        self.symbols[name] = '%uu' % self.shared_bytes
        self.shared_bytes += size

    # --- operands

    def of(self, x, t):
        """Operand x as a value of type t."""
        if re.match(r'0[fF][0-9a-fA-F]{8}$', x):
            return 'to_f32(0x%su)' % x[2:] if t == 'f32' else '0x%su' % x[2:]
        if re.match(r'0[dD][0-9a-fA-F]{16}$', x):
            return 'to_f64(0x%sull)' % x[2:] if t == 'f64' else '0x%sull' % x[2:]
        if re.match(r'-?(0x[0-9a-fA-F]+|\d+)$', x):
            return x if t == 'pred' else '(%s)%sll' % (c_type(t), x)
        if x.startswith('!'):
            return '!' + self.of(x[1:], t)
        if x in SPECIAL:
            return '(uint32_t)' + SPECIAL[x]
        if x.startswith('%'):
            if t in ('f32', 'f64'):
                return 'to_%s(%s)' % (t, name_of(x))
            return name_of(x) if t == 'pred' else '(%s)%s' % (c_type(t), name_of(x))
        if x == 'cuda_dynamic_shared':
            return 'dynamic_at'
        if x in self.symbols:
            return self.symbols[x]
        raise Unknown('operand ' + x)

    def all_of(self, operands, t):
        return [self.of(x, t) for x in operands]

    def put(self, register, t, value):
        if register == '_':
            return ''
        if t in ('f32', 'f64'):
            value = 'bits((%s)(%s))' % (c_type(t), value)
        elif t != 'pred':
            value = '(%s)(%s)' % (c_type(unsigned(t)), value)
        return '%s = %s;' % (name_of(register), value)

    def address(self, operand, space, width, writes):
        base, _, offset = operand.strip('[]').partition('+')
        offset = offset or '0'
        if space == 'shared':
            return 'shared_at(%s + %s, %d, %d)' % (self.of(base, 'u32'), offset, width, writes)
        if space == 'param':
            if base in self.blocks:
                return '(%s + %s)' % (self.blocks[base], offset)
            if base == 'func_retval0':
                return '(result + %s)' % offset
        return 'aligned(%s + %sll, %d)' % (self.of(base, 'u64'), offset, width)

    # --- instructions

    def memory(self, op, mods, t, a):
        mods = [m for m in mods if m not in ('volatile', 'relaxed', 'weak', 'nc', 'gpu')]
        space = mods.pop(0) if mods and mods[0] in ('param', 'global', 'shared', 'local') else 'generic'
        count = int(mods.pop(0)[1:]) if mods and mods[0] in ('v2', 'v4') else 1
        if mods or t not in BYTES:
            raise Unknown(op)
        width, writes = BYTES[t], op == 'st'
        registers = members(a[0] if op == 'ld' else a[1])
        code = 'char *at = %s;' % self.address(a[0] if writes else a[1], space, width * count, writes)
        for i, x in enumerate(registers):
            if writes:
                code += ' store(at + %d, %s);' % (width * i, self.of(x, unsigned(t)))
            else:  # a register may be wider
                code += ' %s = load<%s>(at + %d);' % (name_of(x), c_type(t if t[0] == 's' else unsigned(t)), width * i)
        return code

    def atomic(self, op, mods, t, a):
        if op == 'red':
            a = ['_'] + a
        value = {'max': 'old > by ? old : by', 'min': 'old < by ? old : by', 'add': 'old + by', 'exch': 'by'}.get(mods[-1])
        if mods[:-1] != ['global'] or not value or t[0] == 'f':
            raise Unknown(op)
        return '%s old = load<%s>(%s), by = %s; store((char *)(%s), (%s)(%s)); %s' % (
            c_type(t), c_type(t), self.address(a[1], 'global', BYTES[t], True), self.of(a[2], t),
            self.address(a[1], 'global', BYTES[t], True), c_type(t), value, self.put(a[0], t, 'old'))

    def move(self, t, a):
        if a[1].startswith('{'):
            low, high = self.all_of(members(a[1]), 'u' + str(4 * BYTES[t]))
            return self.put(a[0], t, '%s | (uint64_t)%s << %d' % (low, high, 4 * BYTES[t]))
        if a[0].startswith('{'):
            value = self.of(a[1], unsigned(t))
            return ' '.join(self.put(x, 'u' + str(4 * BYTES[t]), '%s >> %d' % (value, 4 * BYTES[t] * i))
                            for i, x in enumerate(members(a[0])))
        t = {'f32': 'b32', 'f64': 'b64'}.get(t, t)
        return self.put(a[0], t, self.of(a[1], t))

    def convert(self, mods, a):
        if mods == ['rn', 'bf16x2', 'f32']:
            return self.put(a[0], 'b32', 'bf16x2(%s, %s)' % tuple(self.all_of(a[1:], 'f32')))
        if mods == ['rna', 'tf32', 'f32']:
            return self.put(a[0], 'b32', 'tf32(%s)' % self.of(a[1], 'f32'))
        if mods == ['rn', 'bf16', 'f32']:
            return self.put(a[0], 'b16', 'bf16x2(0, %s)' % self.of(a[1], 'f32'))
        to, source = mods[-2:]
        how, value = mods[:-2], self.of(a[1], source)
        if how == ['sat'] and to == source == 'f32':
            return self.put(a[0], 'f32', 'saturated(%s)' % value)
        if how and how[0] in ROUND and len(how) == 1 and source[0] == 'f':
            value = '%s((double)%s)' % (ROUND[how[0]], value)
            return self.put(a[0], to, value if to[0] == 'f' else 'to_integer<%s>(%s)' % (c_type(to), value))
        if how not in ([], ['rn']) or (source[0] == 'f' and to[0] != 'f'):
            raise Unknown('cvt.' + '.'.join(mods))
        return '%s = (%s)(%s);' % (name_of(a[0]), c_type(to), value) if to[0] != 'f' else self.put(a[0], to, value)

    def compare(self, mods, t, a):
        x, y = self.all_of(a[1:3], t)
        value = FLOATS[mods[0]].format(x, y) if t[0] == 'f' else '%s %s %s' % (x, COMPARE[mods[0]], y)
        if len(mods) > 1:
            value = '(%s) %s %s' % (value, LOGIC[mods[1]], self.of(a[3], 'pred'))
        return self.put(a[0], 'pred', value)

    def value(self, op, mods, t, a):
        """The result of an operation on values of type t, without what is to be put where."""
        known = {(): ['add', 'sub', 'min', 'max', 'and', 'or', 'xor', 'not', 'neg', 'abs', 'shl', 'shr', 'div', 'rem',
                      'copysign'], ('lo',): ['mul', 'mad'], ('hi',): ['mul'],
                 ('rn',): ['add', 'sub', 'mul', 'div', 'fma', 'sqrt', 'rcp'], ('rm',): ['fma'],
                 ('approx', 'ftz'): ['ex2', 'rcp', 'div']}
        if op not in known.get(tuple(mods), []):
            raise Unknown('.'.join([op] + mods + [t]))
        v = self.all_of(a, t)
        if t == 'pred':
            return '!' + v[0] if op == 'not' else '%s %s %s' % (v[0], LOGIC[op], v[1])
        if t[0] == 'f':
            if mods and mods[0] in ('rm', 'approx'):
                return '%s_%s(%s)' % (op, mods[0], ', '.join(v))
            if op in ARITHMETIC or op == 'div':
                return '%s %s %s' % (v[0], ARITHMETIC.get(op, '/'), v[1])
            return {'neg': '-{0}', 'rcp': '1 / {0}', 'copysign': 'std::copysign({1}, {0})', 'min': 'std::fmin({0}, {1})',
                    'max': 'std::fmax({0}, {1})'}.get(op, 'std::%s(%s)' % ({'abs': 'fabs'}.get(op, op), ', '.join(v))).format(*v)
        u, bits = self.all_of(a, unsigned(t)), 8 * BYTES[t]
        if mods == ['hi']:
            wide = ('' if t[0] == 's' else 'unsigned ') + '__int128'
            return '(%s)%s * %s >> %d' % (wide, v[0], v[1], bits)
        if op in ARITHMETIC:
            return '%s %s %s' % (u[0], ARITHMETIC[op], u[1])
        if op in ('div', 'rem'):
            return '%s ? %s %s %s : -1' % (v[1], v[0], '/' if op == 'div' else '%', v[1])
        if op in ('min', 'max'):
            return '%s %s %s ? %s : %s' % (v[0], '<' if op == 'min' else '>', v[1], v[0], v[1])
        if op == 'shl':
            return 'shift < {1} ? {0} << shift : 0'.format(u[0], bits)
        if op == 'shr':
            return 'shift < {1} ? {0} >> shift : {2}'.format(v[0], bits, v[0] + ' < 0 ? -1 : 0' if t[0] == 's' else 0)
        return {'mad': '{0} * {1} + {2}', 'not': '~{0}', 'neg': '0 - {0}',
                'abs': v[0] + ' < 0 ? 0 - {0} : {0}'}[op].format(*u)

    def meeting(self, op, mods, a):
        if op in ('bar', 'barrier'):
            if mods[0] == 'warp':
                return 'meet_warp(%s);' % self.of(a[0], 'u32')
            if a != ['0']:
                raise Unknown(op + ' ' + ', '.join(a))
            return 'meet_block();'
        if op == 'vote' and 'ballot' in mods:
            return self.put(a[0], 'u32', 'ballot(%s, %s, "vote", "", 1)' % (self.of(a[2], 'u32'), self.of(a[1], 'pred')))
        if op == 'shfl' and 'bfly' in mods:
            to = a[0].split('|')
            code = 'uint32_t from = lane() ^ %s, mask = %s;' % (self.of(a[2], 'u32'), self.of(a[4], 'u32'))
            code += self.put(to[0], 'b32', 'shuffle(mask, %s, from, "shfl", "", 1)' % self.of(a[1], 'b32'))
            return code + (self.put(to[1], 'pred', 'true') if len(to) > 1 else '')
        raise Unknown(op + '.' + '.'.join(mods))

    def product(self, mods, a):
        per = {('m16n8k8', 'tf32'): 1, ('m16n8k16', 'bf16'): 2}.get((mods[2], mods[-2]))
        if not per:
            raise Unknown('mma.' + '.'.join(mods))
        d, x, y, c = [members(g) for g in a]
        code = 'float c[4] = {%s}; const unsigned a[4] = {%s};' % (
            ', '.join(self.all_of(c, 'f32')), ', '.join(self.all_of(x, 'u32')))
        code += ' tensor_core(%d, c, a, %s, "mma", "", 1);' % (per, ', '.join(self.all_of(y, 'u32')))
        return code + ''.join(' ' + self.put(r, 'f32', 'c[%d]' % i) for i, r in enumerate(d))

    def matrices(self, mods, a):
        if mods != ['sync', 'aligned', 'm8n8', 'x4', 'shared', 'b16']:
            raise Unknown('ldmatrix.' + '.'.join(mods))
        code = 'unsigned x[4]; four_matrices(x, %s);' % self.of(a[1].strip('[]'), 'u32')
        return code + ''.join(' ' + self.put(r, 'b32', 'x[%d]' % i) for i, r in enumerate(members(a[0])))

    def statement(self, text):
        op, _, rest = text.partition(' ')
        (op, *mods), a = op.split('.'), split(rest)
        t = mods[-1] if mods else ''
        if op in ('ret', 'exit'):
            return 'return;'
        if op == 'bra':
            return 'goto %s;' % name_of(a[0])
        if op == 'call':
            m = re.match(r'(?:\((\w+)\)\s*,\s*)?([\w$]+)\s*(?:,\s*\(([^)]*)\))?$', rest.strip())
            result, function, given = m.groups()
            given = [self.blocks[x.strip()] for x in (given or '').split(',') if x.strip()]
            return 'char *given[] = {%s}; %s(%s, given);' % (
                ', '.join(given) or 'nullptr', name_of(function), self.blocks[result] if result else 'nullptr')
        if op in ('ld', 'st'):
            return self.memory(op, mods[:-1], t, a)
        if op in ('atom', 'red'):
            return self.atomic(op, mods[:-1], t, a)
        if op in ('bar', 'barrier', 'vote', 'shfl'):
            return self.meeting(op, mods, a)
        if op == 'mma':
            return self.product(mods, a)
        if op == 'ldmatrix':
            return self.matrices(mods, a)
        if op == 'cvta' and mods[:2] == ['to', 'shared']:  # the window's addresses are offsets
            return self.move(t, a)
        if op in ('mov', 'cvta'):
            return self.move(t, a)
        if op == 'cvt':
            return self.convert(mods, a)
        if op == 'setp':
            return self.compare(mods[:-1], t, a)
        if op == 'selp':
            t = unsigned(t)
            return self.put(a[0], t, '%s ? %s : %s' % tuple([self.of(a[3], 'pred')] + self.all_of(a[1:3], t)))
        if op in ('mul', 'mad') and mods[0] == 'wide':
            wide = t[0] + str(16 * BYTES[t])
            code = '(%s)%s * (%s)%s' % (c_type(wide), self.of(a[1], t), c_type(wide), self.of(a[2], t))
            return self.put(a[0], wide, code + (' + ' + self.of(a[3], wide) if op == 'mad' else ''))
        if op == 'testp':
            test = {'infinite': 'isinf', 'finite': 'isfinite', 'notanumber': 'isnan'}[mods[0]]
            return self.put(a[0], 'pred', 'std::%s(%s)' % (test, self.of(a[1], t)))
        counts = {'clz.b32': 'leading_zeros({0})', 'popc.b32': '__builtin_popcount({0})', 'brev.b32': 'reversed({0})',
                  'bfind.shiftamt.u32': '{0} ? leading_zeros({0}) : -1'}
        if '.'.join([op] + mods) in counts:
            return self.put(a[0], 'u32', counts['.'.join([op] + mods)].format(self.of(a[1], 'u32')))
        if op == 'bfi' and t == 'b32':
            return self.put(a[0], t, 'inserted(%s)' % ', '.join(self.all_of(a[1:], 'u32')))
        if op in ('shl', 'shr'):
            return 'const uint32_t shift = %s; ' % self.of(a[2], 'u32') + self.put(a[0], t, self.value(op, mods[:-1], t, a[1:]))
        return self.put(a[0], t, self.value(op, mods[:-1], t, a[1:]))

    def declare(self, text):
        if text.startswith('.reg'):
            t, names = re.match(r'\.reg\s+\.(\w+)\s+(.*)', text, re.S).groups()
            kind = 'bool' if t == 'pred' else c_type(unsigned(t))
            for name in members(names):
                m = re.match(r'(%?\w+)<(\d+)>$', name)
                each = [m.group(1) + str(k) for k in range(1, int(m.group(2)))] if m else [name]
                if self.depth:  # no initialization, which a goto would skip
                    self.code.append('%s %s;' % (kind, ', '.join(map(name_of, each))))
                else:
                    self.registers.append('%s %s;' % (kind, ', '.join(name_of(x) + ' = 0' for x in each)))
        elif text.startswith('.shared'):
            self.declare_shared(text)
        elif text.startswith('.local'):
            size, align, name = self.variable(text)
            self.registers.append('alignas(%d) char local_%s[%d];' % (align, name_of(name), size))
            self.symbols[name] = '(uint64_t)local_' + name_of(name)
        elif text.startswith('.param'):
            size, _, name = self.variable(text)
            self.blocks[name] = 'block_' + name_of(name)
            self.code.append('alignas(16) char %s[%d];' % (self.blocks[name], size))
        elif not text.startswith('.pragma'):
            raise Unknown(text.split()[0])

    def write(self, name):
        body = re.sub(r'(\$L\w+:)', r'\1;', re.sub(r'\s+', ' ', self.function.body))
        for text in body.split(';'):
            text = text.strip()
            while text[:1] in ('{', '}') and not text.startswith('{%'):
                self.depth += 1 if text[0] == '{' else -1
                self.code.append(text[0])
                text = text[1:].strip()
            guard = re.match(r'@(!?)(%\w+) ', text)
            if guard:
                text = text[guard.end():]
            if text.endswith(':'):
                self.code.append(name_of(text[:-1]) + ':;')
            elif text.startswith('.'):
                self.declare(text)
            elif text:
                code = '{ %s }' % self.statement(text)
                self.code.append('if (%s%s) ' % (guard.group(1), name_of(guard.group(2))) + code if guard else code)
        if self.function.kind == 'entry':
            head = 'static void %s(const void *parameters)\n{\nconst char *P = (const char *)parameters;\n' % name
            head += 'const uint32_t dynamic_at = %d;\nbegin();' % self.dynamic_at()
        else:
            head = 'static void %s(char *result, char **given)\n{\nalignas(16) char P[%d];' % (name, self.parameter_bytes + 1)
            for i, (_, at, size) in enumerate(self.parameters):
                head += '\nmemcpy(P + %d, given[%d], %d);' % (at, i, size)
        return '\n'.join([head] + self.registers + self.code + ['}', ''])

    def dynamic_at(self):
        return -(-self.shared_bytes // 16) * 16


class Shard:
    """One file of C++."""

    def __init__(self):
        self.size, self.code, self.rows, self.called = 0, '', '', set()

    def add(self, file, function, shared, functions, fault=None):
        self.size += len(function.body)
        calls = [f for f in functions if f.kind == 'func' and re.search(r'\b%s\b' % re.escape(f.name), function.body)]
        for f in calls:
            if (file, f.name) not in self.called:
                self.called.add((file, f.name))
                self.add(file, f, shared, functions)
        body = Body(function, shared)
        name = name_of(function.name) + ('_with_' + fault if fault else '')
        self.code += 'namespace from_%s {\n%s}\n' % (file, body.write(name))
        if function.kind == 'entry':
            self.rows += '  {"%s", from_%s::%s, %d, %d, %s},\n' % (
                function.name, file, name, body.parameter_bytes, body.dynamic_at(), '"%s"' % fault if fault else 'nullptr')

    def write(self, path):
        with open(path, 'w') as out:
            out.write('#include "tests/cuda/ptx_on_host.h"\nusing namespace cuda_on_host;\nusing namespace ptx_on_host;\n')
            out.write(self.code)
            out.write('static const entry entries[] = {\n%s};\nstatic const table known(entries);\n' % self.rows)


def main(count, prefix, *paths):
    files = [(name_of(path.split('/')[-1].rsplit('.', 1)[0]), *read(path)) for path in paths]
    kernels, unknown = {}, {}
    for file, shared, functions in files:
        for f in functions:
            if f.kind == 'entry':  # several files may have the same
                kernels.setdefault(f.name, (file, f, shared, functions))
    shards = [Shard() for _ in range(int(count))]
    for kernel in sorted(kernels.values(), key=lambda k: -len(k[1].body)):
        try:
            min(shards[:-1], key=lambda s: s.size).add(*kernel)
        except Unknown as what:
            unknown[str(what)] = kernel[1].name
    for what, where in unknown.items():
        print('ptx_on_host.py: unknown: %s (in %s)' % (what, where))
    if unknown or not kernels:
        return 1
    for fault, (names, pattern, by) in FAULTS.items():
        able = [k for k in kernels.values() if re.search(names, k[1].name) and re.search(pattern, k[1].body)]
        if not able:
            sys.exit('ptx_on_host.py: no kernel has a place for the fault "%s"' % fault)
        file, f, shared, functions = min(able, key=lambda k: len(k[1].body))
        f.body = re.sub(pattern, by, f.body, count=1)
        shards[-1].add(file, f, shared, functions, fault)
    for i, shard in enumerate(shards):
        shard.write('%s%d.cpp' % (prefix, i))
    return 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
