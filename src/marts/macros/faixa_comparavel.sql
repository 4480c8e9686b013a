-- Whether the prices of an item in so many notices say what it costs: under a generic description, things are bought that cannot be
-- compared, and 1 stands for a price. Percentiles: the 10th, the median and the 90th.
editais >= 3 AND percentis[3] > 1 AND percentis[3] <= 5 * percentis[1]
