import { expect, test } from 'vitest'
import { fold } from '#schema/text_key.ts'
import { stemOf, withoutNumber } from '#src/server/search/words.ts'

/** Singular and plural, as tender notices have them. */
const PAIRS = `
  obra obras, rua ruas, via vias, ano anos, dia dias, ovo ovos, fio fios, osso ossos, ave aves, sala salas, peça peças,
  kit kits, notebook notebooks, tablet tablets, toner toners, container containers, scanner scanners, chip chips, led leds,
  software softwares, árvore árvores, hectare hectares, base bases, leite leites, lanche lanches, luz luzes, cruz cruzes,
  ambulância ambulâncias, emergência emergências, licença licenças, balança balanças, prótese próteses, gás gases, mês meses,
  aquisição aquisições, refeição refeições, pão pães, cidadão cidadãos, material materiais, hospital hospitais, imóvel imóveis,
  papel papéis, painel painéis, nível níveis, combustível combustíveis, descartável descartáveis, lençol lençóis, azul azuis,
  civil civis, infantil infantis, barril barris, perfil perfis, fuzil fuzis, bisturi bisturis, sal sais, gel géis,
  útil úteis, portátil portáteis, estéril estéreis, têxtil têxteis, fértil férteis, contábil contábeis, fóssil fósseis,
  item itens, homem homens, álbum álbuns, pneu pneus, computador computadores, colher colheres, escolar escolares,
  francês franceses, inglês ingleses, português portugueses, país países, motor motores, extintor extintores`

test('a word has the stem of its plural', () => {
  const pairs = PAIRS.split(',').map(pair => pair.trim().split(' ').map(fold) as [string, string])
  expect(pairs.filter(([one, many]) => stemOf(one) !== stemOf(many))).toEqual([])
  expect(pairs.filter(([one, many]) => withoutNumber(one) !== withoutNumber(many))).toEqual([])
})

test('words of another meaning have other stems, and words that only end like a plural are found', () => {
  for (const [one, other] of [
    ['mil', 'mel'],
    ['civil', 'cível'],
    ['anos', 'anis'],
    ['hotel', 'fotos'],
    ['mar', 'mesa'],
    ['obra', 'obreiro'],
  ] as const)
    expect(stemOf(fold(one)), one).not.toBe(stemOf(fold(other)))
  for (const word of ['onibus', 'lapis', 'virus', 'tenis', 'gratis', 'biceps', 'as', 's', 'es'])
    expect(stemOf(word), word).not.toBe('')
})
