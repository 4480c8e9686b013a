import {
  date,
  days,
  derived,
  flag,
  type Mart,
  type MartColumn,
  money,
  of,
  renamed,
  same,
  text,
} from './columns.ts'
import { editaisAtivos, prazosImpugnacao } from './notices.ts'

/** Parts of the analyses of live notices, one row each. */

const ofNotice = (...names: readonly string[]) => of(editaisAtivos, ...names)

export const pendenciasHabilitacao: Mart = {
  name: 'pendencias_habilitacao',
  description: 'Requirements of live notices that are still red or yellow',
  portuguese: [
    'Pendências de habilitação',
    'Requisitos de editais ativos que ainda estão em vermelho ou amarelo',
  ],
  columns: [
    ...same('requirements', 'company', 'edital_id', 'ordinal'),
    ...ofNotice(
      'orgao_cnpj',
      'orgao',
      'uf',
      'numero',
      'objeto',
      'fase',
      'em_andamento',
      'data_sessao_dia',
      'dias_ate_sessao',
    ),
    renamed('categoria', 'requirements.category'),
    renamed('titulo', 'requirements.title'),
    renamed('exigido', 'requirements.required'),
    renamed('situacao_atual', 'requirements.current'),
    renamed('status', 'requirements.status', ['Semáforo (código)', 'red (vermelho) ou yellow (amarelo)']),
    text('cor', 'vermelho or amarelo', ['Semáforo', 'vermelho ou amarelo']),
    renamed('notas', 'requirements.ai_notes'),
    ...ofNotice('situacao_sessao'),
    text('categoria_rotulo', 'categoria in Portuguese, for example Regularidade fiscal', [
      'Categoria',
      'Tipo de requisito por extenso, por exemplo Regularidade fiscal',
    ]),
    ...ofNotice('pncp_url', 'contado_no_numero'),
  ],
}

export const alertasJuridicos: Mart = {
  name: 'alertas_juridicos',
  description: 'Legal-risk alerts of live notices, with their action and its deadline',
  portuguese: ['Alertas jurídicos', 'Alertas de editais ativos, com a ação cabível e o prazo dela'],
  columns: [
    ...same('alerts', 'company', 'edital_id', 'ordinal'),
    ...ofNotice('orgao_cnpj', 'orgao', 'uf', 'numero', 'objeto', 'fase', 'em_andamento'),
    ...same('alerts', 'type'),
    flag('oportunidade', 'Whether it is an opportunity, not a risk', [
      'Oportunidade',
      'Se é uma oportunidade, e portanto não um risco',
    ]),
    ...same('alerts', 'severity'),
    text('severidade', 'Severity in Portuguese: crítica, alta, média, baixa', [
      'Severidade',
      'crítica, alta, média ou baixa',
    ]),
    derived('INTEGER', 'severidade_ordem', 'Order of the severities, 1 is critical; 9 for a new one', [
      'Ordem da severidade',
      'De 1 (crítica) a 4 (baixa); 9: severidade nova ou não informada',
    ]),
    renamed('titulo', 'alerts.title'),
    renamed('descricao', 'alerts.description'),
    ...same('alerts', 'action_type'),
    text('acao', 'Action in Portuguese', [
      'Ação cabível',
      'Impugnação, Esclarecimento, Recurso, Contrarrazão ou Nenhuma',
    ]),
    ...same('alerts', 'legal_thesis'),
    ...ofNotice('data_sessao_dia'),
    date(
      'prazo',
      'Last day for the action, if it is to contest or to ask; NULL for appeals, which follow the session',
      [
        'Prazo da ação',
        'Último dia para impugnar ou pedir esclarecimento; vazio para recurso e contrarrazão, que dependem da sessão',
      ],
    ),
    days('dias_ate_prazo', 'From today to that day; negative if it is past, or the session has begun', [
      'Dias até o prazo',
      'Dias corridos de hoje até o prazo da ação; negativo: já passou, ou a sessão já começou',
    ]),
    {
      ...(of(prazosImpugnacao, 'regra_impugnacao')[0] as MartColumn),
      name: 'regra_prazo',
      portuguese: [
        'Regra do prazo da ação',
        'O que deu o prazo da ação: o texto do edital ou a lei; vazio quando não há prazo',
      ],
    },
    ...ofNotice('situacao_sessao'),
    text('tipo', 'type in Portuguese: Risco, Oportunidade, Informação', [
      'Tipo',
      'Risco, Oportunidade ou Informação',
    ]),
    {
      ...(of(prazosImpugnacao, 'certeza_impugnacao')[0] as MartColumn),
      name: 'certeza_prazo',
      portuguese: [
        'Certeza do prazo da ação',
        'do edital, da lei, presumido ou a confirmar: outro dia é possível, e este é o mais cedo; vazio sem prazo',
      ],
    },
    ...ofNotice('pncp_url', 'contado_no_numero'),
  ],
}

export const itensSelecionados: Mart = {
  name: 'itens_selecionados',
  description: 'Items of live notices that the evaluation selected for the company',
  portuguese: [
    'Itens selecionados',
    'Itens de editais ativos que a avaliação automática selecionou para a empresa',
  ],
  columns: [
    ...same('items', 'company', 'edital_id', 'ordinal'),
    ...ofNotice('orgao_cnpj', 'orgao', 'uf', 'numero', 'fase', 'em_andamento', 'data_sessao_dia'),
    ...same('items', 'numero_item', 'numero_lote', 'descricao', 'quantidade', 'unidade_medida'),
    ...same('items', 'valor_unitario_estimado', 'valor_total', 'material_ou_servico'),
    ...same('items', 'ai_reasoning', 'ai_confidence'),
    ...ofNotice('situacao_sessao'),
    money('valor_total_informado', 'Total value; NULL if it is 0 or implausible', [
      'Valor total informado',
      'Valor total do item em BRL para somas; vazio quando é 0 (pode ser sigiloso) ou suspeito',
    ]),
    flag(
      'valor_total_suspeito',
      'Whether the total value is implausible: by the rule for notices, or over 1.01 times the value of its notice',
      [
        'Valor total suspeito',
        'Se o valor total é implausível: pela regra do valor estimado do edital, ou acima de 1,01 vez esse valor',
      ],
    ),
    text('material_ou_servico_rotulo', 'material_ou_servico in Portuguese: Material, Serviço', [
      'Material ou serviço',
      'Material ou Serviço',
    ]),
  ],
}
