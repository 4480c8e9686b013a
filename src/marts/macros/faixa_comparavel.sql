-- Whether the prices of an item in so many notices say what it costs: under a generic description, things are bought that cannot be
-- compared. Percentiles: the 10th, the median and the 90th.
editais >= 3 AND percentis[3] <= 20 * percentis[1]
